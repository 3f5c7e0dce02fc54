#include "server/column_statistics.hpp"

#include "duckdb/catalog/catalog.hpp"
#include "duckdb/catalog/catalog_entry/schema_catalog_entry.hpp"
#include "duckdb/catalog/catalog_entry/table_catalog_entry.hpp"
#include "duckdb/function/table_function.hpp"
#include "duckdb/main/database_manager.hpp"
#include "duckdb/parser/parsed_data/create_table_function_info.hpp"
#include "duckdb/storage/statistics/base_statistics.hpp"

using namespace duckdb; // NOLINT

namespace openduck {
namespace {

constexpr const char *NAME = "openduck_column_statistics";

struct StatisticsBindData : public TableFunctionData {
	//! Of one table; empty: all of the database.
	string schema;
	string table;
};

struct StatisticsState : public GlobalTableFunctionState {
	string database;
	vector<reference<TableCatalogEntry>> tables;
	idx_t table = 0;
	idx_t column = 0;
};

unique_ptr<FunctionData> Bind(ClientContext &, TableFunctionBindInput &input, vector<LogicalType> &types,
                              vector<string> &names) {
	names = {"database_name", "schema_name", "table_name", "column_index", "distinct_count", "lowest", "highest"};
	types = {LogicalType::VARCHAR, LogicalType::VARCHAR, LogicalType::VARCHAR, LogicalType::INTEGER,
	         LogicalType::BIGINT,  LogicalType::VARCHAR, LogicalType::VARCHAR};
	auto result = make_uniq<StatisticsBindData>();
	if (input.inputs.size() == 2) {
		result->schema = input.inputs[0].IsNull() ? string() : StringValue::Get(input.inputs[0]);
		result->table = input.inputs[1].IsNull() ? string() : StringValue::Get(input.inputs[1]);
	}
	return std::move(result);
}

//! Not a view, which goes by a table's name.
void Take(CatalogEntry &entry, vector<reference<TableCatalogEntry>> &tables) {
	if (entry.type == CatalogType::TABLE_ENTRY && entry.Cast<TableCatalogEntry>().IsDuckTable()) {
		tables.push_back(entry.Cast<TableCatalogEntry>());
	}
}

unique_ptr<GlobalTableFunctionState> Init(ClientContext &context, TableFunctionInitInput &input) {
	auto &bind = input.bind_data->Cast<StatisticsBindData>();
	auto result = make_uniq<StatisticsState>();
	result->database = DatabaseManager::GetDefaultDatabase(context);
	auto &catalog = Catalog::GetCatalog(context, result->database);
	if (!catalog.IsDuckCatalog()) {
		return std::move(result);
	}
	if (bind.table.empty()) {
		for (auto &schema : catalog.GetSchemas(context)) {
			schema.get().Scan(context, CatalogType::TABLE_ENTRY,
			                  [&](CatalogEntry &entry) { Take(entry, result->tables); });
		}
		return std::move(result);
	}
	auto entry =
	    catalog.GetEntry(context, CatalogType::TABLE_ENTRY, bind.schema, bind.table, OnEntryNotFound::RETURN_NULL);
	if (entry) {
		Take(*entry, result->tables);
	}
	return std::move(result);
}

void Scan(ClientContext &context, TableFunctionInput &data, DataChunk &output) {
	auto &state = data.global_state->Cast<StatisticsState>();
	idx_t rows = 0;
	while (rows < STANDARD_VECTOR_SIZE && state.table < state.tables.size()) {
		auto &table = state.tables[state.table].get();
		if (state.column >= table.GetColumns().LogicalColumnCount()) {
			state.table++;
			state.column = 0;
			continue;
		}
		auto column = state.column++;
		auto statistics = table.GetStatistics(context, column);
		if (!statistics) {
			continue;
		}
		auto count = statistics->GetDistinctCount();
		auto bounded =
		    statistics->GetStatsType() == StatisticsType::NUMERIC_STATS && NumericStats::HasMinMax(*statistics);
		if (count == 0 && !bounded) {
			continue;
		}
		output.SetValue(0, rows, Value(state.database));
		output.SetValue(1, rows, Value(table.schema.name));
		output.SetValue(2, rows, Value(table.name));
		output.SetValue(3, rows, Value::INTEGER(NumericCast<int32_t>(column + 1)));
		output.SetValue(4, rows, Value::BIGINT(NumericCast<int64_t>(count)));
		output.SetValue(5, rows, bounded ? Value(NumericStats::Min(*statistics).ToString()) : Value());
		output.SetValue(6, rows, bounded ? Value(NumericStats::Max(*statistics).ToString()) : Value());
		rows++;
	}
	output.SetCardinality(rows);
}

} // namespace

void InstallColumnStatistics(ClientContext &context) {
	TableFunctionSet set(NAME);
	set.AddFunction(TableFunction({}, Scan, Bind, Init));
	set.AddFunction(TableFunction({LogicalType::VARCHAR, LogicalType::VARCHAR}, Scan, Bind, Init));
	CreateTableFunctionInfo info(set);
	info.internal = true;
	context.RunFunctionInTransaction([&]() { Catalog::GetSystemCatalog(context).CreateTableFunction(context, info); });
}

} // namespace openduck
