#include "vgi/functions.hpp"

#include "vgi/scan.hpp"

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

idx_t WorkerFunction::Required() const {
	auto result = parameters.size();
	while (result > 0 && parameters[result - 1].has_default) {
		result--;
	}
	return result;
}

vector<NamedValue> CallArguments(const WorkerFunction &worker, TableFunctionBindInput &input) {
	vector<NamedValue> result;
	idx_t place = 0;
	for (idx_t i = 0; i < input.inputs.size(); i++) {
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
	return worker.TakesTable() ? TableInOutFunction(name, std::move(types), worker.function.has_finalize)
	                           : DirectScanFunction(name, std::move(types));
}

static void AddTableFunction(const shared_ptr<WorkerFunction> &worker, TableFunctionSet &out) {
	auto info = make_shared_ptr<WorkerTableInfo>(worker);
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

TableFunctionSet MakeTableFunctions(const string &name, const vector<shared_ptr<WorkerFunction>> &overloads) {
	TableFunctionSet result(name);
	for (auto &worker : overloads) {
		if (worker->TakesTable() && overloads.size() > 1) {
			// DuckDB's binder has no overloads of those: the first of them is the one.
			result.functions.clear();
			AddTableFunction(worker, result);
			break;
		}
		AddTableFunction(worker, result);
	}
	return result;
}

} // namespace vgi
