#include "common/row_list.hpp"

namespace openduck {

namespace {

struct RowList {
	vector<string> names;
	vector<LogicalType> types;
	row_list_t list;
};

struct RowListInfo : public TableFunctionInfo {
	shared_ptr<RowList> rows;
};

struct RowListBindData : public TableFunctionData {
	shared_ptr<RowList> rows;
};

struct RowListState : public GlobalTableFunctionState {
	vector<vector<Value>> rows;
	idx_t next = 0;
};

unique_ptr<FunctionData> BindRows(ClientContext &, TableFunctionBindInput &input, vector<LogicalType> &types,
                                  vector<string> &names) {
	auto result = make_uniq<RowListBindData>();
	result->rows = input.info->Cast<RowListInfo>().rows;
	names = result->rows->names;
	types = result->rows->types;
	return std::move(result);
}

unique_ptr<GlobalTableFunctionState> ListRows(ClientContext &context, TableFunctionInitInput &input) {
	auto result = make_uniq<RowListState>();
	result->rows = input.bind_data->Cast<RowListBindData>().rows->list(context);
	return std::move(result);
}

void GiveRows(ClientContext &, TableFunctionInput &input, DataChunk &output) {
	auto &state = input.global_state->Cast<RowListState>();
	idx_t count = 0;
	for (; count < STANDARD_VECTOR_SIZE && state.next < state.rows.size(); count++) {
		auto &row = state.rows[state.next++];
		for (idx_t column = 0; column < row.size(); column++) {
			output.SetValue(column, count, row[column]);
		}
	}
	output.SetCardinality(count);
}

} // namespace

TableFunction RowListFunction(const string &name, vector<string> names, vector<LogicalType> types, row_list_t list) {
	auto info = make_shared_ptr<RowListInfo>();
	info->rows = make_shared_ptr<RowList>(RowList {std::move(names), std::move(types), std::move(list)});
	TableFunction function(name, {}, GiveRows, BindRows, ListRows);
	function.function_info = std::move(info);
	return function;
}

} // namespace openduck
