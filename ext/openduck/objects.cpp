#include "openduck/objects.hpp"

#include "openduck/catalog.hpp"
#include "openduck/macro_text.hpp"
#include "openduck/schema.hpp"

#include "duckdb/catalog/catalog_entry/index_catalog_entry.hpp"
#include "duckdb/catalog/catalog_entry/scalar_macro_catalog_entry.hpp"
#include "duckdb/catalog/catalog_entry/sequence_catalog_entry.hpp"
#include "duckdb/catalog/catalog_entry/table_macro_catalog_entry.hpp"
#include "duckdb/parser/expression/columnref_expression.hpp"
#include "duckdb/parser/parsed_data/create_index_info.hpp"
#include "duckdb/parser/parsed_data/create_sequence_info.hpp"
#include "duckdb/parser/parsed_expression_iterator.hpp"
#include "duckdb/parser/parser.hpp"
#include "duckdb/parser/statement/create_statement.hpp"
#include "duckdb/transaction/duck_transaction.hpp"

namespace openduck {

namespace {

enum AnswerColumn : idx_t {
	KIND,
	SCHEMA,
	NAME,
	TABLE, // of an index
	COMMENT,
	TAGS,
	TEXT,       // its statement; of a macro: what it stands for
	NUMBERS,    // of a sequence: start, least, greatest, step, last and next value; of a macro: its number
	CYCLE,      // of a sequence
	PARAMETERS, // of a macro
	PARAMETER_TYPES,
	CANDIDATES // a macro's error for wrong arguments, which tells the defaults of its parameters
};

vector<LogicalType> AnswerTypes() {
	auto texts = LogicalType::LIST(LogicalType::VARCHAR);
	return {LogicalType::VARCHAR,
	        LogicalType::VARCHAR,
	        LogicalType::VARCHAR,
	        LogicalType::VARCHAR,
	        LogicalType::VARCHAR,
	        LogicalType::MAP(LogicalType::VARCHAR, LogicalType::VARCHAR),
	        LogicalType::VARCHAR,
	        LogicalType::LIST(LogicalType::BIGINT),
	        LogicalType::BOOLEAN,
	        texts,
	        texts,
	        LogicalType::VARCHAR};
}

//! The last five columns are NULL where they do not apply; the first part gives them their types.
string Question() {
	return "SELECT 'q', schema_name, sequence_name, CAST(NULL AS VARCHAR), comment, tags, sql, "
	       "[start_value, min_value, max_value, increment_by, last_value, "
	       "CAST(regexp_extract(sql, ' START (-?[0-9]+) (NO )?CYCLE;$', 1) AS BIGINT)], cycle, CAST(NULL AS "
	       "VARCHAR[]), "
	       "CAST(NULL AS VARCHAR[]), CAST(NULL AS VARCHAR) "
	       "FROM duckdb_sequences() WHERE database_name = current_database()\n"
	       "UNION ALL SELECT 'i', schema_name, index_name, table_name, comment, tags, sql, NULL, NULL, NULL, NULL, "
	       "NULL "
	       "FROM duckdb_indexes() WHERE database_name = current_database()\n"
	       "UNION ALL SELECT 'y', schema_name, type_name, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL "
	       "FROM duckdb_types() WHERE database_name = current_database() AND NOT internal\n"
	       "UNION ALL SELECT CASE function_type WHEN 'macro' THEN 'm' ELSE 'f' END, schema_name, "
	       "function_name, NULL, comment, tags, macro_definition, [function_oid], NULL, parameters, parameter_types, "
	       "CASE WHEN len(parameters) > 0 THEN json_extract_string(json_serialize_plan("
	       "CASE function_type WHEN 'macro' THEN 'SELECT ' ELSE 'FROM ' END || "
	       "'\"' || replace(schema_name, '\"', '\"\"') || '\".\"' || replace(function_name, '\"', '\"\"') || "
	       "'\"(NULL' || repeat(', NULL', len(parameters)) || ')'), '$.error_message') END "
	       "FROM duckdb_functions() WHERE database_name = current_database() AND NOT internal "
	       "AND function_type IN ('macro', 'table_macro')";
}

class OpenDuckIndexEntry : public IndexCatalogEntry {
public:
	OpenDuckIndexEntry(SchemaCatalogEntry &schema, CreateIndexInfo &info)
	    : IndexCatalogEntry(schema.ParentCatalog(), schema, info), table(info.table) {
	}
	string GetSchemaName() const override {
		return ParentSchema().name;
	}
	string GetTableName() const override {
		return table;
	}
	string ToSQL() const override {
		return sql;
	}

private:
	const string table;
};

string TextOf(const Value &value) {
	return value.IsNull() ? string() : StringValue::Get(value);
}

vector<string> TextsOf(const Value &value) {
	vector<string> result;
	if (!value.IsNull()) {
		for (auto &text : ListValue::GetChildren(value)) {
			result.push_back(TextOf(text));
		}
	}
	return result;
}

void SetCommon(DataChunk &chunk, idx_t row, CreateInfo &info) {
	info.comment = chunk.GetValue(COMMENT, row);
	auto tags = chunk.GetValue(TAGS, row);
	if (tags.IsNull()) {
		return;
	}
	for (auto &pair : MapValue::GetChildren(tags)) {
		auto &fields = StructValue::GetChildren(pair);
		info.tags.insert(TextOf(fields[0]), TextOf(fields[1]));
	}
}

unique_ptr<CatalogEntry> Sequence(ClientContext &context, SchemaCatalogEntry &schema, DataChunk &chunk, idx_t row) {
	CreateSequenceInfo info;
	SetCommon(chunk, row, info);
	info.name = TextOf(chunk.GetValue(NAME, row));
	auto list = chunk.GetValue(NUMBERS, row);
	auto &numbers = ListValue::GetChildren(list);
	info.start_value = BigIntValue::Get(numbers[0]);
	info.min_value = BigIntValue::Get(numbers[1]);
	info.max_value = BigIntValue::Get(numbers[2]);
	info.increment = BigIntValue::Get(numbers[3]);
	info.cycle = BooleanValue::Get(chunk.GetValue(CYCLE, row));
	info.usage_count = 0;
	// One that is temporary takes its values without a word to the transaction.
	info.temporary = true;
	auto result = make_uniq<SequenceCatalogEntry>(schema.ParentCatalog(), schema, info);
	if (!numbers[4].IsNull()) {
		auto last = BigIntValue::Get(numbers[4]);
		if (last != info.start_value) {
			auto &here = DuckTransaction::Get(context, Catalog::GetSystemCatalog(context));
			result->ReplayValue(1, last);
			result->NextValue(here);
		}
		result->ReplayValue(3, BigIntValue::Get(numbers[5]));
	}
	result->temporary = false;
	return std::move(result);
}

//! The columns of TABLE that EXPRESSION names, in order, as positions of storage.
void AddColumns(const TableCatalogEntry &table, const ParsedExpression &expression, vector<column_t> &columns) {
	ParsedExpressionIterator::VisitExpression<ColumnRefExpression>(
	    expression, [&](const ColumnRefExpression &reference) {
		    auto &name = reference.GetColumnName();
		    if (!table.ColumnExists(name)) {
			    return;
		    }
		    auto &column = table.GetColumn(name);
		    if (column.Generated()) {
			    return;
		    }
		    auto position = column.Physical().index;
		    if (std::find(columns.begin(), columns.end(), position) == columns.end()) {
			    columns.push_back(position);
		    }
	    });
}

unique_ptr<CatalogEntry> Index(ClientContext &context, SchemaCatalogEntry &schema, DataChunk &chunk, idx_t row) {
	auto sql = TextOf(chunk.GetValue(TEXT, row));
	Parser parser;
	parser.ParseQuery(sql);
	if (parser.statements.size() != 1 || parser.statements[0]->type != StatementType::CREATE_STATEMENT ||
	    parser.statements[0]->Cast<CreateStatement>().info->type != CatalogType::INDEX_ENTRY) {
		throw IOException("the server's answer about its catalog calls this an index: %s", sql);
	}
	auto &info = parser.statements[0]->Cast<CreateStatement>().info->Cast<CreateIndexInfo>();
	SetCommon(chunk, row, info);
	info.index_name = TextOf(chunk.GetValue(NAME, row));
	info.table = TextOf(chunk.GetValue(TABLE, row));
	info.sql = std::move(sql);
	EntryLookupInfo lookup(CatalogType::TABLE_ENTRY, info.table);
	auto table = schema.LookupEntry(schema.GetCatalogTransaction(context), lookup);
	if (!table || table->type != CatalogType::TABLE_ENTRY) {
		return nullptr; // dropped meanwhile
	}
	for (auto &expression : info.parsed_expressions) {
		AddColumns(table->Cast<TableCatalogEntry>(), *expression, info.column_ids);
	}
	auto result = make_uniq<OpenDuckIndexEntry>(schema, info);
	result->tags = info.tags;
	return std::move(result);
}

//! Macros are one row for each of their overloads.
class Macros {
public:
	void Add(DataChunk &chunk, idx_t row, SchemaCatalogEntry &schema) {
		auto number = BigIntValue::Get(ListValue::GetChildren(chunk.GetValue(NUMBERS, row))[0]);
		auto &macro = macros[number];
		if (!macro) {
			macro = make_uniq<Macro>(schema);
			macro->text.name = TextOf(chunk.GetValue(NAME, row));
			macro->text.table = TextOf(chunk.GetValue(KIND, row)) == "f";
			SetCommon(chunk, row, macro->text.common);
		}
		macro->text.overloads.push_back({TextsOf(chunk.GetValue(PARAMETERS, row)),
		                                 TextsOf(chunk.GetValue(PARAMETER_TYPES, row)),
		                                 TextOf(chunk.GetValue(TEXT, row))});
		auto candidates = TextOf(chunk.GetValue(CANDIDATES, row));
		if (!candidates.empty()) {
			macro->text.candidates.push_back(std::move(candidates));
		}
	}

	void MakeEntries(ClientContext &context, vector<unique_ptr<CatalogEntry>> &entries) {
		for (auto &entry : macros) {
			auto &schema = entry.second->schema;
			auto info = entry.second->text.Parse(context);
			info->schema = schema.name;
			if (entry.second->text.table) {
				entries.push_back(make_uniq<TableMacroCatalogEntry>(schema.ParentCatalog(), schema, *info));
			} else {
				entries.push_back(make_uniq<ScalarMacroCatalogEntry>(schema.ParentCatalog(), schema, *info));
			}
		}
	}

private:
	struct Macro {
		explicit Macro(SchemaCatalogEntry &schema) : schema(schema) {
		}
		SchemaCatalogEntry &schema;
		MacroText text;
	};
	//! By their numbers: one that uses another was made after it.
	map<int64_t, unique_ptr<Macro>> macros;
};

} // namespace

unique_ptr<CatalogObjects> CatalogObjects::Load(ClientContext &context, const od_remote_txn *txn,
                                                CatalogSnapshot &snapshot) {
	auto result = make_uniq<CatalogObjects>();
	auto rows = snapshot.catalog.GetRemote().Query(context, txn, Question(), AnswerTypes(), nullptr);
	Macros macros;
	for (auto &chunk : rows->Chunks()) {
		for (idx_t row = 0; row < chunk.size(); row++) {
			auto schema = snapshot.FindSchema(TextOf(chunk.GetValue(SCHEMA, row)));
			if (!schema) {
				continue;
			}
			unique_ptr<CatalogEntry> entry;
			switch (TextOf(chunk.GetValue(KIND, row))[0]) {
			case 'q':
				entry = Sequence(context, *schema, chunk, row);
				break;
			case 'i':
				entry = Index(context, *schema, chunk, row);
				break;
			case 'y':
				result->types[schema->name].push_back(TextOf(chunk.GetValue(NAME, row)));
				break;
			default:
				macros.Add(chunk, row, *schema);
				break;
			}
			if (entry) {
				result->entries.push_back(std::move(entry));
			}
		}
	}
	macros.MakeEntries(context, result->entries);
	return result;
}

void CatalogObjects::Scan(const string &schema, CatalogType type, const std::function<void(CatalogEntry &)> &callback) {
	for (auto &entry : entries) {
		if (entry->type == type && StringUtil::CIEquals(entry->ParentSchema().name, schema)) {
			callback(*entry);
		}
	}
}

vector<string> CatalogObjects::TypeNames(const string &schema) {
	auto known = types.find(schema);
	return known == types.end() ? vector<string>() : known->second;
}

} // namespace openduck
