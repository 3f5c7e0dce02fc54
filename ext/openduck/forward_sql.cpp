#include "openduck/forward_sql.hpp"

#include "duckdb/parser/keyword_helper.hpp"
#include "duckdb/parser/parsed_data/alter_table_info.hpp"
#include "duckdb/parser/parsed_data/comment_on_column_info.hpp"
#include "duckdb/parser/parsed_data/create_type_info.hpp"
#include "duckdb/parser/statement/list.hpp"
#include "duckdb/parser/statement/merge_into_statement.hpp"
#include "duckdb/parser/statement/update_statement.hpp"
#include "duckdb/parser/tableref/expressionlistref.hpp"

namespace openduck {

static string Quoted(const string &name) {
	return KeywordHelper::WriteQuoted(name, '"');
}

static string QuotedList(const vector<string> &names) {
	return StringUtil::Join(names, names.size(), ", ", Quoted);
}

static string Qualified(const string &catalog, const string &schema, const string &name) {
	return (catalog.empty() ? string() : Quoted(catalog) + ".") + (schema.empty() ? string() : Quoted(schema) + ".") +
	       Quoted(name);
}

//===--------------------------------------------------------------------===//
// INSERT
//===--------------------------------------------------------------------===//
string OnConflictToSql(const OnConflictInfo &info) {
	string sql = " ON CONFLICT";
	if (!info.indexed_columns.empty()) {
		sql += " (" + QuotedList(info.indexed_columns) + ")";
	}
	if (info.condition) {
		sql += " WHERE " + info.condition->ToString();
	}
	if (info.action_type == OnConflictAction::NOTHING) {
		return sql + " DO NOTHING";
	}
	sql += " DO UPDATE " + info.set_info->ToString();
	if (info.set_info->condition) {
		sql += " WHERE " + info.set_info->condition->ToString();
	}
	return sql;
}

static string ReturningSql(const vector<unique_ptr<ParsedExpression>> &list) {
	if (list.empty()) {
		return string();
	}
	return " RETURNING " + StringUtil::Join(list, list.size(), ", ", [](const unique_ptr<ParsedExpression> &expr) {
		       return expr->ToString() + (expr->HasAlias() ? " AS " + Quoted(expr->GetAlias()) : string());
	       });
}

//! The rows of a VALUES list; each its own text, since there may be many.
static void AppendValues(const ExpressionListRef &values, string &sql) {
	sql += "VALUES ";
	bool first_row = true;
	for (auto &row : values.values) {
		sql += first_row ? "(" : ", (";
		first_row = false;
		bool first = true;
		for (auto &value : row) {
			if (!first) {
				sql += ", ";
			}
			first = false;
			sql += value->ToString();
		}
		sql += ")";
	}
}

static string InsertSql(const InsertStatement &statement) {
	auto &conflict = statement.on_conflict_info;
	auto replace = conflict && conflict->action_type == OnConflictAction::REPLACE;
	string sql = statement.cte_map.ToString();
	sql += (sql.empty() ? "" : " ") + string("INSERT ") + (replace ? "OR REPLACE INTO " : "INTO ");
	sql += Qualified(statement.catalog, statement.schema, statement.table);
	if (statement.table_ref && !statement.table_ref->alias.empty()) {
		sql += " AS " + Quoted(statement.table_ref->alias);
	}
	if (statement.column_order == InsertColumnOrder::INSERT_BY_NAME) {
		sql += " BY NAME";
	}
	if (!statement.columns.empty()) {
		sql += " (" + QuotedList(statement.columns) + ")";
	}
	sql += " ";
	auto values = statement.GetValuesList();
	if (statement.default_values) {
		sql += "DEFAULT VALUES";
	} else if (values) {
		AppendValues(*values, sql);
	} else {
		sql += statement.select_statement->ToString();
	}
	if (conflict && !replace) {
		sql += OnConflictToSql(*conflict);
	}
	return sql + ReturningSql(statement.returning_list);
}

//===--------------------------------------------------------------------===//
// ALTER, COMMENT
//===--------------------------------------------------------------------===//
static string ColumnSql(const string &path, const ColumnDefinition &column) {
	auto sql = path + " " + column.Type().ToString();
	if (column.Generated()) {
		return sql + " GENERATED ALWAYS AS (" + column.GeneratedExpression().ToString() + ")";
	}
	return column.HasDefaultValue() ? sql + " DEFAULT (" + column.DefaultValue().ToString() + ")" : sql;
}

static string AlterTableSql(const AlterTableInfo &info) {
	string table = string("ALTER TABLE ") + (info.if_not_found == OnEntryNotFound::RETURN_NULL ? "IF EXISTS " : "") +
	               Qualified(info.catalog, info.schema, info.name);
	switch (info.alter_table_type) {
	case AlterTableType::ADD_COLUMN: {
		auto &add = info.Cast<AddColumnInfo>();
		return table + " ADD COLUMN " + (add.if_column_not_exists ? "IF NOT EXISTS " : "") +
		       ColumnSql(Quoted(add.new_column.Name()), add.new_column);
	}
	case AlterTableType::ADD_FIELD: {
		auto &add = info.Cast<AddFieldInfo>();
		string path;
		for (auto &part : add.column_path) {
			path += Quoted(part) + ".";
		}
		return table + " ADD COLUMN " + (add.if_field_not_exists ? "IF NOT EXISTS " : "") +
		       ColumnSql(path + Quoted(add.new_field.Name()), add.new_field);
	}
	case AlterTableType::SET_DEFAULT: {
		auto &change = info.Cast<SetDefaultInfo>();
		return table + " ALTER COLUMN " + Quoted(change.column_name) +
		       (change.expression ? " SET DEFAULT (" + change.expression->ToString() + ")" : " DROP DEFAULT");
	}
	default:
		break;
	}
	// DuckDB writes IF EXISTS and the name as one word.
	auto plain = info.Copy();
	plain->if_not_found = OnEntryNotFound::THROW_EXCEPTION;
	auto sql = plain->ToString();
	auto start = sql.find_first_not_of(' ', strlen("ALTER TABLE"));
	if (info.if_not_found == OnEntryNotFound::RETURN_NULL && start != string::npos) {
		sql.insert(start, "IF EXISTS ");
	}
	return sql;
}

static string AlterSql(const AlterInfo &info) {
	switch (info.type) {
	case AlterType::ALTER_TABLE:
		return AlterTableSql(info.Cast<AlterTableInfo>());
	case AlterType::ALTER_VIEW: {
		auto &rename = info.Cast<RenameViewInfo>();
		return string("ALTER VIEW ") + (info.if_not_found == OnEntryNotFound::RETURN_NULL ? "IF EXISTS " : "") +
		       Qualified(info.catalog, info.schema, info.name) + " RENAME TO " + Quoted(rename.new_view_name);
	}
	case AlterType::SET_COLUMN_COMMENT: {
		auto &comment = info.Cast<SetColumnCommentInfo>();
		return "COMMENT ON COLUMN " + Qualified(info.catalog, info.schema, info.name) + "." +
		       Quoted(comment.column_name) + " IS " + comment.comment_value.ToSQLString();
	}
	case AlterType::SET_COMMENT: {
		auto &comment = info.Cast<SetCommentInfo>();
		return "COMMENT ON " + ParseInfo::TypeToString(comment.entry_catalog_type) + " " +
		       Qualified(info.catalog, info.schema, info.name) + " IS " + comment.comment_value.ToSQLString();
	}
	default:
		return info.ToString();
	}
}

//===--------------------------------------------------------------------===//
// CREATE TYPE
//===--------------------------------------------------------------------===//
static string CreateTypeSql(const CreateTypeInfo &info) {
	if (info.type.id() != LogicalTypeId::ENUM) {
		return info.ToString();
	}
	string values;
	auto &labels = EnumType::GetValuesInsertOrder(info.type);
	for (idx_t i = 0; i < EnumType::GetSize(info.type); i++) {
		values += (i ? ", " : "") + KeywordHelper::WriteQuoted(labels.GetValue(i).ToString(), '\'');
	}
	auto replace = info.on_conflict == OnCreateConflict::REPLACE_ON_CONFLICT ? "OR REPLACE " : "";
	auto unless = info.on_conflict == OnCreateConflict::IGNORE_ON_CONFLICT ? "IF NOT EXISTS " : "";
	return string("CREATE ") + replace + "TYPE " + unless + Qualified(info.catalog, info.schema, info.name) +
	       " AS ENUM (" + values + ")";
}

string StatementToSql(const SQLStatement &statement) {
	switch (statement.type) {
	case StatementType::INSERT_STATEMENT:
		return InsertSql(statement.Cast<InsertStatement>());
	case StatementType::ALTER_STATEMENT:
		return AlterSql(*statement.Cast<AlterStatement>().info);
	case StatementType::CREATE_STATEMENT: {
		auto &info = *statement.Cast<CreateStatement>().info;
		if (info.type == CatalogType::TYPE_ENTRY) {
			return CreateTypeSql(info.Cast<CreateTypeInfo>());
		}
		return info.ToString();
	}
	default:
		return statement.ToString();
	}
}

} // namespace openduck
