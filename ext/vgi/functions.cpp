#include "vgi/functions.hpp"

#include "vgi/scan.hpp"

#include "duckdb/execution/expression_executor.hpp"
#include "duckdb/function/table/arrow.hpp"

extern "C" {
#include "arrow/ipc_read.h"
}

namespace vgi {

static bool HasMark(const ArrowSchema &field, const char *key, const char *value) {
	return Text(od_schema_metadata(&field, key)) == value;
}

WorkerFunction::WorkerFunction(ClientContext &context, VgiCatalog &catalog, string schema_p,
                               shared_ptr<Answer<od_vgi_functions>> answer_p, const od_vgi_function &function)
    : catalog(catalog), schema(std::move(schema_p)), answer(std::move(answer_p)), function(function) {
	if (!function.arguments.release || function.arguments.n_children == 0) {
		return;
	}
	ArrowTableSchema columns;
	ArrowTableFunction::PopulateArrowTableSchema(context, columns, function.arguments);
	for (idx_t i = 0; i < idx_t(function.arguments.n_children); i++) {
		auto &field = *function.arguments.children[i];
		Parameter parameter;
		parameter.name = field.name ? field.name : "";
		parameter.type = HasMark(field, "vgi_type", "any") ? LogicalType::ANY : columns.GetTypes()[i];
		if (HasMark(field, "vgi_arg", "named")) {
			named[parameter.name] = parameter.type;
		} else if (HasMark(field, "vgi_varargs", "true")) {
			varargs = parameter.type;
		} else {
			parameter.is_table = HasMark(field, "vgi_type", "table");
			parameter.has_default = od_schema_metadata(&field, "vgi_default").data != nullptr;
			parameter.is_constant = HasMark(field, "vgi_const", "true");
			parameters.push_back(std::move(parameter));
		}
	}
}

bool WorkerFunction::TakesTable() const {
	for (auto &parameter : parameters) {
		if (parameter.is_table) {
			return true;
		}
	}
	return false;
}

bool WorkerFunction::TakesCount(idx_t count) const {
	return count >= Required() && (count <= parameters.size() || varargs.id() != LogicalTypeId::INVALID);
}

idx_t WorkerFunction::Required() const {
	auto result = parameters.size();
	while (!function.input_from_args && result > 0 && parameters[result - 1].has_default) {
		result--;
	}
	return result;
}

Value ConstantArgument(ClientContext &context, const WorkerFunction &worker, idx_t i, Expression &argument) {
	auto &parameter = worker.parameters[i];
	if (argument.HasParameter()) {
		throw ParameterNotResolvedException();
	}
	if (!argument.IsFoldable()) {
		throw BinderException("VGI function \"%s\" takes a constant for its parameter \"%s\"",
		                      Text(worker.function.name), parameter.name);
	}
	auto value = ExpressionExecutor::EvaluateScalar(context, argument, true);
	return parameter.type == LogicalType::ANY ? value : value.DefaultCastAs(parameter.type);
}

InsertionOrderPreservingMap<string> WorkerFunction::ForExplain() const {
	InsertionOrderPreservingMap<string> result;
	result["Catalog"] = catalog.GetName();
	result["Function"] = schema + "." + Text(function.name);
	return result;
}

vector<NamedValue> CallArguments(const WorkerFunction &worker, TableFunctionBindInput &input) {
	vector<NamedValue> result;
	idx_t place = 0;
	for (idx_t i = 0; i < input.inputs.size() && !worker.function.input_from_args; i++) {
		if (i >= worker.parameters.size() || !worker.parameters[i].is_table) {
			result.push_back({"positional_" + to_string(place++), input.inputs[i]});
		}
	}
	for (auto &value : input.named_parameters) {
		result.push_back({"named_" + worker.named.find(value.first)->first, value.second});
	}
	return result;
}

static TableFunction MakeTableFunction(const WorkerFunction &worker, const string &name, vector<LogicalType> types) {
	if (worker.function.type == OD_VGI_TABLE_BUFFERING_FUNCTION) {
		return BufferedFunction(name, std::move(types));
	}
	if (worker.function.input_from_args) {
		return RowFunction(name, std::move(types));
	}
	return worker.TakesTable() ? TableInOutFunction(name, std::move(types), worker.function.has_finalize)
	                           : DirectScanFunction(name, std::move(types));
}

static void AddTableFunction(const shared_ptr<WorkerFunction> &worker,
                             const vector<shared_ptr<WorkerFunction>> &overloads, TableFunctionSet &out) {
	auto info = make_shared_ptr<WorkerTableInfo>(worker, overloads);
	for (auto count = worker->Required(); count <= worker->parameters.size(); count++) {
		vector<LogicalType> types;
		for (idx_t i = 0; i < count; i++) {
			auto &parameter = worker->parameters[i];
			types.push_back(parameter.is_table ? LogicalType::TABLE : parameter.type);
		}
		auto function = MakeTableFunction(*worker, out.name, std::move(types));
		function.named_parameters = worker->named;
		if (count == worker->parameters.size()) {
			function.varargs = worker->varargs;
		}
		function.function_info = info;
		out.AddFunction(std::move(function));
	}
}

//! Where arguments are columns, DuckDB takes named parameters for columns, too: FUNCTION as it is then called.
static void AddWithNamed(const WorkerFunction &worker, const vector<shared_ptr<WorkerFunction>> &overloads,
                         TableFunction function, TableFunctionSet &out) {
	if (function.varargs.id() != LogicalTypeId::INVALID) {
		return;
	}
	for (idx_t i = 0; i < worker.named.size(); i++) {
		function.arguments.push_back(LogicalType::ANY);
		for (auto &other : overloads) {
			if (other->TakesCount(function.arguments.size())) {
				return;
			}
		}
		out.AddFunction(function);
	}
}

TableFunctionSet MakeTableFunctions(const string &name, const vector<shared_ptr<WorkerFunction>> &all) {
	TableFunctionSet result(name);
	// DuckDB's binder has no overloads of functions over tables: the first of them is the one. Nor has it some that take rows beside
	// others that do not: those count that are of the first one's kind.
	vector<shared_ptr<WorkerFunction>> overloads;
	for (auto &worker : all) {
		if (worker->TakesTable()) {
			overloads = {worker};
			break;
		}
		if (worker->function.input_from_args == all[0]->function.input_from_args) {
			overloads.push_back(worker);
		}
	}
	for (auto &worker : overloads) {
		AddTableFunction(worker, overloads, result);
		if (!worker->function.input_from_args) {
			continue;
		}
		auto &added = result.functions.back();
		if (added.varargs.id() != LogicalTypeId::INVALID && overloads.size() == 1 && !worker->named.empty()) {
			added.varargs = LogicalType::ANY;
		}
		AddWithNamed(*worker, overloads, added, result);
	}
	return result;
}

} // namespace vgi
