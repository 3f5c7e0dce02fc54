//===----------------------------------------------------------------------===//
// vgi/functions.hpp: functions of a worker's, as entries of its catalog
//===----------------------------------------------------------------------===//
#pragma once

#include "vgi/rows.hpp"

#include "duckdb/function/function_set.hpp"
#include "duckdb/planner/operator/logical_get.hpp"

namespace vgi {

//! A parameter that has a place.
struct Parameter {
	string name;
	LogicalType type;
	bool has_default = false;
	bool is_table = false;
	//! Of a scalar or aggregate function: has one value for all rows, which goes to the bind.
	bool is_constant = false;
};

//! A function as its worker tells it, and what DuckDB has to know of its parameters.
struct WorkerFunction {
	WorkerFunction(ClientContext &context, VgiCatalog &catalog, string schema,
	               shared_ptr<Answer<od_vgi_functions>> answer, const od_vgi_function &function);

	bool TakesTable() const;
	//! Whether COUNT arguments can be those that have a place.
	bool TakesCount(idx_t count) const;
	//! How many of the first parameters have to be given. Those that are columns of rows all have.
	idx_t Required() const;
	//! What EXPLAIN shows of an operator that calls it.
	InsertionOrderPreservingMap<string> ForExplain() const;

	VgiCatalog &catalog;
	const string schema;
	const shared_ptr<Answer<od_vgi_functions>> answer;
	const od_vgi_function &function;
	vector<Parameter> parameters;
	named_parameter_type_map_t named;
	//! Of what follows the parameters; INVALID: nothing does.
	LogicalType varargs = LogicalType(LogicalTypeId::INVALID);
};

struct WorkerTableInfo : public TableFunctionInfo {
	WorkerTableInfo(shared_ptr<WorkerFunction> worker_p, vector<shared_ptr<WorkerFunction>> overloads_p)
	    : worker(std::move(worker_p)), overloads(std::move(overloads_p)) {
	}
	shared_ptr<WorkerFunction> worker;
	vector<shared_ptr<WorkerFunction>> overloads; //!< all of its name, itself too
};

//! The values that a call of a table function gives, for its bind.
vector<NamedValue> CallArguments(const WorkerFunction &worker, TableFunctionBindInput &input);

//! The value of ARGUMENT, the one for the parameter I of WORKER, which takes a constant there; throws if it is none.
Value ConstantArgument(ClientContext &context, const WorkerFunction &worker, idx_t i, Expression &argument);

//! Overloads of one name, in the order in which the worker lists them.
TableFunctionSet MakeTableFunctions(const string &name, const vector<shared_ptr<WorkerFunction>> &overloads);
AggregateFunctionSet MakeAggregateFunctions(const string &name, const vector<shared_ptr<WorkerFunction>> &overloads);
ScalarFunctionSet MakeScalarFunctions(const string &name, const vector<shared_ptr<WorkerFunction>> &overloads);

//! A function over a table that is its parameter.
TableFunction TableInOutFunction(const string &name, vector<LogicalType> parameters, bool has_finalize);
//! Throws if GET calls one that keeps rows for its end for each row of another table: DuckDB cannot do that, and would take it for a
//! fault of its own.
void RefuseCorrelated(const LogicalGet &get);
//! The same of one that keeps all rows first. It is never run: the optimizer puts an operator there.
TableFunction BufferedFunction(const string &name, vector<LogicalType> parameters);
//! Puts that operator in the place of OP, a LogicalGet, if that is of such a function.
void PlanBuffered(ClientContext &context, unique_ptr<LogicalOperator> &op);
//! A function whose parameters are columns of rows that go in; as the one before, it is never run as such.
TableFunction RowFunction(const string &name, vector<LogicalType> parameters);
void PlanRowFunction(Binder &binder, unique_ptr<LogicalOperator> &op);

//! What is bound of a function over rows.
struct InOutBindData : public TableFunctionData {
	shared_ptr<WorkerFunction> worker;
	shared_ptr<BoundFunction> bound;
	shared_ptr<RowsSchema> input;
	vector<LogicalType> types; //!< of INPUT
	vector<string> named;      //!< named parameters that came as columns behind INPUT's

	unique_ptr<FunctionData> Copy() const override {
		auto result = make_uniq<InOutBindData>();
		result->worker = worker;
		result->bound = bound;
		result->input = input;
		result->types = types;
		result->named = named;
		return std::move(result);
	}
	bool Equals(const FunctionData &other) const override {
		return bound == other.Cast<InOutBindData>().bound;
	}
	bool SupportStatementCache() const override {
		return false;
	}
};
//! What BOUND makes, for DuckDB; throws if that is no column.
void ReturnedColumns(ClientContext &context, const WorkerFunction &worker, const BoundFunction &bound,
                     vector<LogicalType> &types, vector<string> &names);
unique_ptr<FunctionData> BindInOut(ClientContext &context, TableFunctionBindInput &input, vector<LogicalType> &types,
                                   vector<string> &names);

} // namespace vgi
