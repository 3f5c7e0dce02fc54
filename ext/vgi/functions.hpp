//===----------------------------------------------------------------------===//
// vgi/functions.hpp: functions of a worker's, as entries of its catalog
//===----------------------------------------------------------------------===//
#pragma once

#include "vgi/rows.hpp"

#include "duckdb/function/scalar_function.hpp"
#include "duckdb/function/table_function.hpp"
#include "duckdb/planner/operator/logical_get.hpp"

namespace vgi {

//! A parameter that has a place.
struct Parameter {
	string name;
	LogicalType type;
	bool has_default = false;
	bool is_table = false;
	//! Of a scalar function: has one value for all rows, which goes to the bind.
	bool is_constant = false;
};

//! A function as its worker tells it, and what DuckDB has to know of its parameters.
struct WorkerFunction {
	WorkerFunction(ClientContext &context, VgiCatalog &catalog, string schema,
	               shared_ptr<Answer<od_vgi_functions>> answer, const od_vgi_function &function);

	bool TakesTable() const;
	//! How many of the first parameters have to be given.
	idx_t Required() const;

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
	explicit WorkerTableInfo(shared_ptr<WorkerFunction> worker_p) : worker(std::move(worker_p)) {
	}
	shared_ptr<WorkerFunction> worker;
};

//! The values that a call of a table function gives, for its bind.
vector<NamedValue> CallArguments(const WorkerFunction &worker, TableFunctionBindInput &input);

//! Overloads of one name.
TableFunctionSet MakeTableFunctions(const string &name, const vector<shared_ptr<WorkerFunction>> &overloads);
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

//! What is bound of a function over rows.
struct InOutBindData : public TableFunctionData {
	shared_ptr<WorkerFunction> worker;
	shared_ptr<BoundFunction> bound;
	shared_ptr<RowsSchema> input;

	unique_ptr<FunctionData> Copy() const override {
		auto result = make_uniq<InOutBindData>();
		result->worker = worker;
		result->bound = bound;
		result->input = input;
		return std::move(result);
	}
	bool Equals(const FunctionData &other) const override {
		return bound == other.Cast<InOutBindData>().bound;
	}
	bool SupportStatementCache() const override {
		return false;
	}
};
unique_ptr<FunctionData> BindInOut(ClientContext &context, TableFunctionBindInput &input, vector<LogicalType> &types,
                                   vector<string> &names);

} // namespace vgi
