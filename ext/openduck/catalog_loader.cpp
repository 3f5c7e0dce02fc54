#include "openduck/catalog_loader.hpp"

#include "openduck/pushdown_function.hpp"

#include "duckdb/common/string_util.hpp"
#include "duckdb/parser/keyword_helper.hpp"

namespace openduck {

namespace {

//! Every answer has these columns; what they hold depends on the kind of the row.
enum AnswerColumn : idx_t {
	KIND, // 'd' database, 's' schema, 't' table, 'v' view, 'c' column, 'x' column of DESCRIBE, 'y' collation,
	// 'g' default or generated, 'n' name in its own letters, 'f' foreign key to the table itself, 'u' statistics
	SCHEMA,   // its schema
	RELATION, // its table or view
	NAME,     // of the column
	POSITION, // of the column, from 1
	COMMENT,
	TEXT,     // a CREATE statement, a type
	EXTRA,    // a column's default, its key as DESCRIBE writes it
	FLAG,     // internal; of a column: nullable
	FLAG_2,   // temporary
	NUMBER,   // estimated size; of the database: its columns, counted up to a limit; of a column: its distinct values
	NUMBER_2, // indexes
	TAGS
};

vector<LogicalType> AnswerTypes() {
	return {LogicalType::VARCHAR,
	        LogicalType::VARCHAR,
	        LogicalType::VARCHAR,
	        LogicalType::VARCHAR,
	        LogicalType::BIGINT,
	        LogicalType::VARCHAR,
	        LogicalType::VARCHAR,
	        LogicalType::VARCHAR,
	        LogicalType::BOOLEAN,
	        LogicalType::BOOLEAN,
	        LogicalType::BIGINT,
	        LogicalType::BIGINT,
	        LogicalType::MAP(LogicalType::VARCHAR, LogicalType::VARCHAR)};
}

//! One SELECT of the answer's shape. Empty items are NULL.
string Part(const string &kind, const vector<string> &items, const string &from) {
	static const char *const TYPES[] = {"VARCHAR", "VARCHAR", "VARCHAR", "BIGINT", "VARCHAR", "VARCHAR",
	                                    "VARCHAR", "BOOLEAN", "BOOLEAN", "BIGINT", "BIGINT",  "MAP(VARCHAR, VARCHAR)"};
	D_ASSERT(items.size() == 12);
	string result = "SELECT '" + kind + "'";
	for (idx_t i = 0; i < items.size(); i++) {
		// Without the casts a column of NULLs alone would be an INTEGER.
		result += ", CAST(" + (items[i].empty() ? "NULL" : items[i]) + " AS " + TYPES[i] + ")";
	}
	return result + from;
}

const char *const OF_DATABASE = " WHERE database_name = current_database()";

string SchemasPart() {
	return Part("s", {"schema_name", "", "", "", "comment", "", "", "internal", "", "", "", "tags"},
	            string(" FROM duckdb_schemas()") + OF_DATABASE);
}

string DatabasePart(const string &count) {
	return Part("d", {"", "current_database()", "", "", "", "", "", "", "", count, "", ""}, "");
}

//! Counting stops early, so that a huge catalog costs no more than a small one.
string CountColumns(int64_t limit) {
	return StringUtil::Format("(SELECT %s FROM (SELECT 1 FROM duckdb_columns()%s LIMIT %lld))",
	                          SystemCallSql("count", {"*"}), OF_DATABASE, limit + 1);
}

string Literal(const string &text) {
	return KeywordHelper::WriteQuoted(text, '\'');
}

string Identifier(const string &text) {
	return KeywordHelper::WriteQuoted(text, '"');
}

//! The names of the list COLUMN, as SQL writes them.
string NamesOf(const string &column) {
	return "array_to_string(list_transform(" + column + ", lambda n: '\"' || replace(n, '\"', '\"\"') || '\"'), ', ')";
}

//! Foreign keys, each as DuckDB's CREATE statements have it and as it has to be. DuckDB's has the other table's name without
//! quotes, and is empty if the table refers to itself. Of one that was renamed, that is to the name that it had.
string ForeignKeysPart() {
	auto itself = "(referenced_table = table_name OR (schema_name, referenced_table) NOT IN (SELECT (schema_name, "
	              "table_name) FROM duckdb_tables()" +
	              string(OF_DATABASE) + "))";
	auto other = "CASE WHEN " + itself + " THEN table_name ELSE referenced_table END";
	// Of the default schema there is one in every database.
	auto schema = "CASE WHEN schema_name = 'main' THEN '' ELSE '\"' || replace(schema_name, '\"', '\"\"') || '\".' END";
	auto text = "'FOREIGN KEY (' || " + NamesOf("constraint_column_names") + " || ') REFERENCES ' || " + schema +
	            " || '\"' || replace(" + other + ", '\"', '\"\"') || '\"(' || " + NamesOf("referenced_column_names") +
	            " || ')'";
	return Part("f", {"schema_name", "table_name", "", "", "", "constraint_text", text, "", "", "", "", ""},
	            string(" FROM duckdb_constraints()") + OF_DATABASE + " AND constraint_type = 'FOREIGN KEY'");
}

//! Whether SQL, a CREATE statement of SCHEMA as DuckDB gives it, has a foreign key whose other table (of the same schema)
//! is none of TABLES, or could be another in SQL than it is.
bool HasOddReference(const string &sql, const string &schema, const case_insensitive_set_t &tables) {
	static const string MARK = " REFERENCES ";
	auto prefix = schema == DEFAULT_SCHEMA ? string() : schema + ".";
	for (auto at = sql.find(MARK); at != string::npos; at = sql.find(MARK, at)) {
		at += MARK.size();
		auto end = sql.find('(', at);
		if (end == string::npos || sql.compare(at, prefix.size(), prefix) != 0) {
			return true;
		}
		auto name = sql.substr(at + prefix.size(), end - at - prefix.size());
		if (KeywordHelper::RequiresQuotes(name) || (!prefix.empty() && KeywordHelper::RequiresQuotes(schema)) ||
		    !tables.count(Identifier(schema) + Identifier(name))) {
			return true;
		}
	}
	return false;
}

//! SQL without the commas that nothing follows.
string WithoutEmptyItems(const string &sql) {
	string result;
	char quote = 0;
	for (auto c : sql) {
		if (quote) {
			quote = c == quote ? 0 : quote;
		} else if (c == '\'' || c == '"') {
			quote = c;
		} else if (c == ',' || c == ')') {
			auto last = result.find_last_not_of(' ');
			if (last != string::npos && result[last] == ',') {
				result.resize(last);
			}
		}
		result += c;
	}
	return result;
}

//! SQL, a CREATE statement as DuckDB gives it, with FOREIGN_KEYS as they have to be.
string WithForeignKeys(string sql, const vector<pair<string, string>> &foreign_keys) {
	string lacking;
	for (auto &key : foreign_keys) {
		auto at = key.first.empty() ? string::npos : sql.find(key.first);
		if (at == string::npos) {
			lacking += ", " + key.second;
		} else {
			sql.replace(at, key.first.size(), key.second);
		}
	}
	sql = WithoutEmptyItems(sql);
	auto end = sql.rfind(')');
	return end == string::npos ? sql : sql.insert(end, lacking);
}

string Union(const vector<string> &parts) {
	return StringUtil::Join(parts, "\nUNION ALL ");
}

string TextOf(const Value &value) {
	return value.IsNull() ? string() : StringValue::Get(value);
}

bool FlagOf(const Value &value) {
	return !value.IsNull() && BooleanValue::Get(value);
}

InsertionOrderPreservingMap<string> TagsOf(const Value &value) {
	InsertionOrderPreservingMap<string> result;
	if (value.IsNull()) {
		return result;
	}
	for (auto &pair : MapValue::GetChildren(value)) {
		auto &fields = StructValue::GetChildren(pair);
		result.insert(TextOf(fields[0]), TextOf(fields[1]));
	}
	return result;
}

//! Sorts the rows of an answer into a LoadedCatalog.
class AnswerReader {
public:
	explicit AnswerReader(LoadedCatalog &result) : result(result) {
	}

	void Read(ColumnDataCollection &rows) {
		for (auto &chunk : rows.Chunks()) {
			for (idx_t row = 0; row < chunk.size(); row++) {
				ReadRow(chunk, row);
			}
		}
	}

private:
	void ReadRow(DataChunk &chunk, idx_t row) {
		auto kind = TextOf(chunk.GetValue(KIND, row));
		switch (kind.empty() ? '\0' : kind[0]) {
		case 'd':
			result.database = TextOf(chunk.GetValue(RELATION, row));
			if (!chunk.GetValue(NUMBER, row).IsNull()) {
				result.column_count = BigIntValue::Get(chunk.GetValue(NUMBER, row));
			}
			break;
		case 's':
			ReadSchema(chunk, row);
			break;
		case 't':
		case 'v':
			ReadRelation(chunk, row, kind[0] == 'v');
			break;
		case 'c':
			ReadColumn(chunk, row);
			break;
		case 'x':
			ReadDescribed(chunk, row);
			break;
		case 'g':
			ReadGenerated(chunk, row);
			break;
		case 'u':
			ReadStatistics(chunk, row);
			break;
		case 'f':
			Relation(chunk, row)
			    .foreign_keys.emplace_back(TextOf(chunk.GetValue(TEXT, row)), TextOf(chunk.GetValue(EXTRA, row)));
			break;
		case 'y': {
			auto text = TextOf(chunk.GetValue(TEXT, row));
			if (!text.empty()) {
				Column(Relation(chunk, row), BigIntValue::Get(chunk.GetValue(POSITION, row))).collation = text;
			}
			break;
		}
		case 'n': {
			auto text = TextOf(chunk.GetValue(TEXT, row));
			auto &relation = Relation(chunk, row);
			if (StringUtil::CIEquals(text, relation.name)) {
				relation.name = text;
			}
			break;
		}
		default:
			throw IOException("the server's answer about its catalog has a row of unknown kind '%s'", kind);
		}
	}

	void ReadSchema(DataChunk &chunk, idx_t row) {
		LoadedSchema schema;
		schema.name = TextOf(chunk.GetValue(SCHEMA, row));
		schema.comment = chunk.GetValue(COMMENT, row);
		schema.tags = TagsOf(chunk.GetValue(TAGS, row));
		schema.internal = FlagOf(chunk.GetValue(FLAG, row));
		result.schemas.push_back(std::move(schema));
	}

	//! SQL's lower() knows more letters than names do: what it lets through is compared again. A row without NAME is a
	//! listing's.
	static bool IsNamed(DataChunk &chunk, idx_t row) {
		auto name = chunk.GetValue(NAME, row);
		return name.IsNull() || StringUtil::CIEquals(TextOf(name), TextOf(chunk.GetValue(RELATION, row)));
	}

	void ReadRelation(DataChunk &chunk, idx_t row, bool is_view) {
		if (!IsNamed(chunk, row)) {
			return;
		}
		auto &relation = Relation(chunk, row);
		relation.is_view = is_view;
		auto name = chunk.GetValue(NAME, row);
		relation.name = TextOf(name.IsNull() ? chunk.GetValue(RELATION, row) : name);
		relation.comment = chunk.GetValue(COMMENT, row);
		relation.sql = TextOf(chunk.GetValue(TEXT, row));
		relation.internal = FlagOf(chunk.GetValue(FLAG, row));
		relation.temporary = FlagOf(chunk.GetValue(FLAG_2, row));
		auto size = chunk.GetValue(NUMBER, row);
		if (!size.IsNull() && BigIntValue::Get(size) >= 0) {
			relation.estimated_size = NumericCast<idx_t>(BigIntValue::Get(size));
		}
		auto indexes = chunk.GetValue(NUMBER_2, row);
		if (!indexes.IsNull() && BigIntValue::Get(indexes) >= 0) {
			relation.index_count = NumericCast<idx_t>(BigIntValue::Get(indexes));
		}
		relation.tags = TagsOf(chunk.GetValue(TAGS, row));
	}

	void ReadColumn(DataChunk &chunk, idx_t row) {
		if (chunk.GetValue(NAME, row).IsNull()) {
			return; // the placeholder of a view that the server could not bind
		}
		auto &relation = Relation(chunk, row);
		auto &column = Column(relation, BigIntValue::Get(chunk.GetValue(POSITION, row)));
		column.name = TextOf(chunk.GetValue(NAME, row));
		column.type = TextOf(chunk.GetValue(TEXT, row));
		column.comment = chunk.GetValue(COMMENT, row);
		column.nullable = FlagOf(chunk.GetValue(FLAG, row));
		column.default_sql = chunk.GetValue(EXTRA, row);
	}

	//! A row of DESCRIBE tells the key in place of the comment.
	void ReadDescribed(DataChunk &chunk, idx_t row) {
		ReadColumn(chunk, row);
		auto &relation = Relation(chunk, row);
		auto &column = Column(relation, BigIntValue::Get(chunk.GetValue(POSITION, row)));
		auto key = TextOf(column.comment);
		column.comment = Value();
		if (key == "PRI") {
			relation.primary_columns.push_back(column.name);
		} else if (key == "UNI") {
			relation.unique_columns.push_back(column.name);
		}
	}

	//! DESCRIBE does not show what a column is generated by, but this row does.
	void ReadGenerated(DataChunk &chunk, idx_t row) {
		auto &column = Column(Relation(chunk, row), BigIntValue::Get(chunk.GetValue(POSITION, row)));
		auto expression = chunk.GetValue(EXTRA, row);
		if (column.default_sql.IsNull() && !expression.IsNull()) {
			column.default_sql = expression;
			column.generated = true;
		}
	}

	//! These come last. What they tell of a table that has come since is of no use.
	void ReadStatistics(DataChunk &chunk, idx_t row) {
		auto entry = index.find(RelationKey(chunk, row));
		auto position = BigIntValue::Get(chunk.GetValue(POSITION, row));
		auto count = BigIntValue::Get(chunk.GetValue(NUMBER, row));
		if (entry == index.end() || position < 1) {
			return;
		}
		auto &columns = result.relations[entry->second].columns;
		if (idx_t(position) <= columns.size()) {
			auto &column = columns[idx_t(position) - 1];
			column.distinct_count = count > 0 ? idx_t(count) : 0;
			column.lowest = chunk.GetValue(COMMENT, row);
			column.highest = chunk.GetValue(TEXT, row);
		}
	}

	static string RelationKey(DataChunk &chunk, idx_t row) {
		return Identifier(TextOf(chunk.GetValue(SCHEMA, row))) + Identifier(TextOf(chunk.GetValue(RELATION, row)));
	}

	//! Rows of one relation mostly come together.
	LoadedRelation &Relation(DataChunk &chunk, idx_t row) {
		auto schema = TextOf(chunk.GetValue(SCHEMA, row));
		auto name = TextOf(chunk.GetValue(RELATION, row));
		auto key = RelationKey(chunk, row);
		auto entry = index.find(key);
		if (entry != index.end()) {
			return result.relations[entry->second];
		}
		index[key] = result.relations.size();
		LoadedRelation relation;
		relation.schema = std::move(schema);
		relation.name = std::move(name);
		result.relations.push_back(std::move(relation));
		return result.relations.back();
	}

	static LoadedColumn &Column(LoadedRelation &relation, int64_t position) {
		constexpr int64_t MAX_COLUMNS = 1000000;
		if (position < 1 || position > MAX_COLUMNS) {
			throw IOException("the server's answer about its catalog has a column at position %lld", position);
		}
		auto at = NumericCast<idx_t>(position - 1);
		if (relation.columns.size() <= at) {
			relation.columns.resize(at + 1);
		}
		return relation.columns[at];
	}

	LoadedCatalog &result;
	case_insensitive_map_t<idx_t> index;
};

LoadedCatalog Ask(ClientContext &context, Remote &remote, const od_remote_txn *txn, const string &sql,
                  string *layout = nullptr) {
	LoadedCatalog result;
	result.column_count = -1;
	auto rows = remote.Query(context, txn, sql, AnswerTypes(), &result.version, layout);
	AnswerReader(result).Read(*rows);
	return result;
}

//! What only servers of ours know.
const char *const STATISTICS = "openduck_column_statistics";

//! As Ask, of PARTS and of what openduck_column_statistics tells if it is given ARGUMENTS.
LoadedCatalog AskWithStatistics(ClientContext &context, Remote &remote, const od_remote_txn *txn, vector<string> parts,
                                const string &arguments) {
	auto without = Union(parts);
	if (!remote.TakesRows()) {
		return Ask(context, remote, txn, without);
	}
	parts.push_back(Part(
	    "u",
	    {"schema_name", "table_name", "", "column_index", "lowest", "highest", "", "", "", "distinct_count", "", ""},
	    string(" FROM ") + STATISTICS + "(" + arguments + ")"));
	try {
		return Ask(context, remote, txn, Union(parts));
	} catch (CatalogException &ex) {
		if (!StringUtil::Contains(ex.what(), STATISTICS)) {
			throw;
		}
	}
	remote.SetTakesNoRows();
	return Ask(context, remote, txn, without);
}

case_insensitive_set_t TablesOf(const LoadedCatalog &catalog) {
	case_insensitive_set_t result;
	for (auto &relation : catalog.relations) {
		if (!relation.is_view) {
			result.insert(Identifier(relation.schema) + Identifier(relation.name));
		}
	}
	return result;
}

void MendForeignKeys(ClientContext &context, Remote &remote, const od_remote_txn *txn, LoadedCatalog &catalog,
                     const case_insensitive_set_t &tables) {
	LoadedCatalog told;
	try {
		told = Ask(context, remote, txn, ForeignKeysPart());
	} catch (std::exception &ex) {
		// To list constraints the server binds those of all its databases, and one that it cannot bind is of no matter here.
		auto type = ErrorData(ex).Type();
		if (type != ExceptionType::CATALOG && type != ExceptionType::BINDER) {
			throw;
		}
	}
	map<pair<string, string>, reference<LoadedRelation>> by_name;
	for (auto &other : told.relations) {
		by_name.emplace(make_pair(other.schema, other.name), other);
	}
	for (auto &relation : catalog.relations) {
		auto entry = by_name.find(make_pair(relation.schema, relation.name));
		if (entry != by_name.end()) {
			relation.sql = WithForeignKeys(relation.sql, entry->second.get().foreign_keys);
		} else if (!relation.is_view) {
			relation.sql = WithoutEmptyItems(relation.sql);
		}
	}
	if (!told.relations.empty()) {
		return;
	}
	// What is left refers to no table that DuckDB would find: it would wait for it forever before it copies this one.
	for (auto &relation : catalog.relations) {
		if (!relation.is_view && HasOddReference(relation.sql, relation.schema, tables)) {
			relation.sql.clear();
		}
	}
}

} // namespace

LoadedCatalog CatalogLoader::LoadSchemas(ClientContext &context, Remote &remote, const od_remote_txn *txn,
                                         int64_t count_limit, string *layout) {
	return Ask(context, remote, txn, Union({DatabasePart(CountColumns(count_limit)), SchemasPart()}), layout);
}

LoadedCatalog CatalogLoader::LoadAll(ClientContext &context, Remote &remote, const od_remote_txn *txn,
                                     int64_t count_limit) {
	auto result = AskWithStatistics(
	    context, remote, txn,
	    {DatabasePart(CountColumns(count_limit)), SchemasPart(),
	     Part("t",
	          {"schema_name", "table_name", "", "", "comment", "sql", "", "internal", "temporary", "estimated_size",
	           "index_count", "tags"},
	          string(" FROM duckdb_tables()") + OF_DATABASE),
	     Part("v", {"schema_name", "view_name", "", "", "comment", "sql", "", "internal", "temporary", "", "", "tags"},
	          string(" FROM duckdb_views()") + OF_DATABASE),
	     Part("c",
	          {"schema_name", "table_name", "column_name", "column_index", "comment", "data_type", "column_default",
	           "is_nullable", "", "", "", ""},
	          string(" FROM duckdb_columns()") + OF_DATABASE)},
	    "");
	result.complete = true;
	auto tables = TablesOf(result);
	bool odd = false;
	for (auto &relation : result.relations) {
		relation.full = true;
		if (!relation.is_view) {
			odd = odd || WithoutEmptyItems(relation.sql) != relation.sql ||
			      HasOddReference(relation.sql, relation.schema, tables);
		}
	}
	if (odd) {
		MendForeignKeys(context, remote, txn, result, tables);
	}
	return result;
}

LoadedCatalog CatalogLoader::LoadRelation(ClientContext &context, Remote &remote, const od_remote_txn *txn,
                                          const string &schema, const string &name) {
	auto schema_literal = Literal(schema);
	auto name_literal = Literal(name);
	auto relation = Identifier(schema) + "." + Identifier(name);
	auto of_schema = " AND schema_name = " + schema_literal;
	// The plan tells what DESCRIBE does not: collations, and the table's name in its own letters.
	auto plan = "(SELECT CAST(json_serialize_plan(" + Literal("SELECT * FROM " + relation) + ") AS JSON) AS plan)";
	auto types = "(SELECT json_extract(plan, '$.plans[0].expressions[*].return_type') AS types FROM " + plan + ")";
	return AskWithStatistics(
	    context, remote, txn,
	    {DatabasePart(""), SchemasPart(),
	     Part("x",
	          {schema_literal, name_literal, "column_name", "row_number() OVER ()", "\"key\"", "column_type",
	           "\"default\"", "\"null\" = 'YES'", "", "", "", ""},
	          " FROM (DESCRIBE " + relation + ")"),
	     Part("y",
	          {schema_literal, name_literal, "", "position", "", "json_extract_string(type, '$.type_info.collation')",
	           "", "", "", "", "", ""},
	          " FROM (SELECT unnest(types) AS type, generate_subscripts(types, 1) AS position FROM " + types + ")"),
	     Part("g", {schema_literal, name_literal, "", "cid + 1", "", "", "dflt_value", "", "", "", "", ""},
	          " FROM pragma_table_info(" + Literal(relation) + ") WHERE dflt_value IS NOT NULL"),
	     Part("n",
	          {schema_literal, name_literal, "", "", "",
	           "json_extract_string(plan, '$.plans[0].children[0].function_data.table')", "", "", "", "", "", ""},
	          " FROM " + plan),
	     Part("v",
	          {schema_literal, name_literal, "view_name", "", "comment", "sql", "", "internal", "temporary", "", "",
	           "tags"},
	          string(" FROM duckdb_views()") + OF_DATABASE + of_schema + " AND lower(view_name) = lower(" +
	              name_literal + ")")},
	    schema_literal + ", " + name_literal);
}

} // namespace openduck
