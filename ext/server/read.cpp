#include "server/read.hpp"

#include "duckdb.hpp"
#include "duckdb/parser/expression/list.hpp"
#include "duckdb/parser/parsed_data/alter_info.hpp"
#include "duckdb/parser/parsed_data/copy_info.hpp"
#include "duckdb/parser/parsed_data/create_index_info.hpp"
#include "duckdb/parser/parsed_data/create_table_info.hpp"
#include "duckdb/parser/parsed_data/create_view_info.hpp"
#include "duckdb/parser/parsed_data/drop_info.hpp"
#include "duckdb/parser/parsed_expression_iterator.hpp"
#include "duckdb/parser/parser.hpp"
#include "duckdb/parser/query_node/list.hpp"
#include "duckdb/parser/statement/list.hpp"
#include "duckdb/parser/statement/multi_statement.hpp"
#include "duckdb/parser/tableref/list.hpp"

namespace openduck {
namespace {

using namespace duckdb; // NOLINT: the walk names little else

//! Table functions that change nothing, wherever they run: what is not here may.
bool OnlyReads(const string &name) {
	static const case_insensitive_set_t NAMES = {"range",
	                                             "generate_series",
	                                             "unnest",
	                                             "unlist",
	                                             "repeat",
	                                             "repeat_row",
	                                             "json_each",
	                                             "json_tree",
	                                             "read_csv",
	                                             "read_csv_auto",
	                                             "sniff_csv",
	                                             "read_parquet",
	                                             "parquet_scan",
	                                             "parquet_schema",
	                                             "parquet_metadata",
	                                             "read_json",
	                                             "read_json_auto",
	                                             "read_ndjson",
	                                             "read_json_objects",
	                                             "read_text",
	                                             "read_blob",
	                                             "glob",
	                                             "test_all_types",
	                                             "seq_scan",
	                                             "sql_auto_complete"};
	return NAMES.find(name) != NAMES.end() || StringUtil::StartsWith(StringUtil::Lower(name), "duckdb_") ||
	       StringUtil::StartsWith(StringUtil::Lower(name), "pragma_");
}

//! Functions of a row that leave something behind.
bool LeavesTraces(const string &name) {
	static const case_insensitive_set_t NAMES = {"nextval", "write_log"};
	return NAMES.find(name) != NAMES.end();
}

class StatementReader {
public:
	using Table = void (*)(void *arg, const char *catalog, const char *schema, const char *name);

	StatementReader(Table table, void *arg) : table(table), arg(arg) {
	}

	void Statement(SQLStatement &statement);
	bool only_reads = true;

private:
	void Query(QueryNode &node);
	void CommonTables(CommonTableExpressionMap &map);
	void Ref(TableRef &ref);
	void OptionalRef(const unique_ptr<TableRef> &ref);
	void Expr(ParsedExpression &expr);
	void OptionalExpr(const unique_ptr<ParsedExpression> &expr);
	void Exprs(const vector<unique_ptr<ParsedExpression>> &list);
	void SetInfo(const unique_ptr<UpdateSetInfo> &info);
	void Create(CreateInfo &info);
	void Merge(MergeIntoStatement &statement);
	void Name(const string &catalog, const string &schema, const string &name);
	bool IsCommonTable(const string &name) const;

	Table table;
	void *arg;
	//! Names of common table expressions that are in scope
	vector<string> common_tables;
};

bool StatementReader::IsCommonTable(const string &name) const {
	for (auto &known : common_tables) {
		if (StringUtil::CIEquals(known, name)) {
			return true;
		}
	}
	return false;
}

void StatementReader::Name(const string &catalog, const string &schema, const string &name) {
	if (!name.empty()) {
		table(arg, catalog.c_str(), schema.c_str(), name.c_str());
	}
}

void StatementReader::OptionalExpr(const unique_ptr<ParsedExpression> &expr) {
	if (expr) {
		Expr(*expr);
	}
}

void StatementReader::Exprs(const vector<unique_ptr<ParsedExpression>> &list) {
	for (auto &expr : list) {
		OptionalExpr(expr);
	}
}

void StatementReader::Expr(ParsedExpression &expr) {
	if (expr.GetExpressionClass() == ExpressionClass::FUNCTION) {
		only_reads = only_reads && !LeavesTraces(expr.Cast<FunctionExpression>().function_name);
	}
	if (expr.GetExpressionClass() == ExpressionClass::SUBQUERY) {
		Query(*expr.Cast<SubqueryExpression>().subquery->node);
	}
	ParsedExpressionIterator::EnumerateChildren(expr,
	                                            [&](unique_ptr<ParsedExpression> &child) { OptionalExpr(child); });
}

void StatementReader::CommonTables(CommonTableExpressionMap &map) {
	for (auto &entry : map.map) {
		auto &node = *entry.second->query->node;
		// In its own query the name is another table's, unless it is recursive.
		if (node.type == QueryNodeType::RECURSIVE_CTE_NODE) {
			common_tables.push_back(entry.first);
			Query(node);
		} else {
			Query(node);
			common_tables.push_back(entry.first);
		}
	}
}

void StatementReader::Query(QueryNode &node) {
	auto scope = common_tables.size();
	CommonTables(node.cte_map);
	switch (node.type) {
	case QueryNodeType::SELECT_NODE: {
		auto &select = node.Cast<SelectNode>();
		OptionalRef(select.from_table);
		Exprs(select.select_list);
		OptionalExpr(select.where_clause);
		Exprs(select.groups.group_expressions);
		OptionalExpr(select.having);
		OptionalExpr(select.qualify);
		break;
	}
	case QueryNodeType::SET_OPERATION_NODE:
		for (auto &child : node.Cast<SetOperationNode>().children) {
			Query(*child);
		}
		break;
	case QueryNodeType::RECURSIVE_CTE_NODE: {
		auto &recursive = node.Cast<RecursiveCTENode>();
		common_tables.push_back(recursive.ctename);
		Query(*recursive.left);
		Query(*recursive.right);
		break;
	}
	default:
		only_reads = false;
		break;
	}
	ParsedExpressionIterator::EnumerateQueryNodeModifiers(
	    node, [&](unique_ptr<ParsedExpression> &child) { OptionalExpr(child); });
	common_tables.resize(scope);
}

void StatementReader::OptionalRef(const unique_ptr<TableRef> &ref) {
	if (ref) {
		Ref(*ref);
	}
}

void StatementReader::Ref(TableRef &ref) {
	switch (ref.type) {
	case TableReferenceType::BASE_TABLE: {
		auto &base = ref.Cast<BaseTableRef>();
		if (!base.catalog_name.empty() || !base.schema_name.empty() || !IsCommonTable(base.table_name)) {
			Name(base.catalog_name, base.schema_name, base.table_name);
		}
		break;
	}
	case TableReferenceType::SUBQUERY:
		Query(*ref.Cast<SubqueryRef>().subquery->node);
		break;
	case TableReferenceType::JOIN: {
		auto &join = ref.Cast<JoinRef>();
		Ref(*join.left);
		Ref(*join.right);
		OptionalExpr(join.condition);
		break;
	}
	case TableReferenceType::TABLE_FUNCTION: {
		auto &function = *ref.Cast<TableFunctionRef>().function;
		only_reads = only_reads && function.GetExpressionClass() == ExpressionClass::FUNCTION &&
		             OnlyReads(function.Cast<FunctionExpression>().function_name);
		Expr(function);
		break;
	}
	case TableReferenceType::EXPRESSION_LIST:
		for (auto &row : ref.Cast<ExpressionListRef>().values) {
			Exprs(row);
		}
		break;
	case TableReferenceType::PIVOT: {
		auto &pivot = ref.Cast<PivotRef>();
		Ref(*pivot.source);
		Exprs(pivot.aggregates);
		break;
	}
	case TableReferenceType::SHOW_REF: {
		auto &show = ref.Cast<ShowRef>();
		if (show.query) {
			Query(*show.query);
		}
		break;
	}
	case TableReferenceType::EMPTY_FROM:
		break;
	default:
		only_reads = false;
		break;
	}
}

void StatementReader::SetInfo(const unique_ptr<UpdateSetInfo> &info) {
	if (info) {
		Exprs(info->expressions);
		OptionalExpr(info->condition);
	}
}

void StatementReader::Create(CreateInfo &info) {
	switch (info.type) {
	case CatalogType::TABLE_ENTRY: {
		auto &create = info.Cast<CreateTableInfo>();
		Name(info.catalog, info.schema, create.table);
		if (create.query) {
			Query(*create.query->node);
		}
		break;
	}
	case CatalogType::VIEW_ENTRY: {
		auto &create = info.Cast<CreateViewInfo>();
		Name(info.catalog, info.schema, create.view_name);
		if (create.query) {
			Query(*create.query->node);
		}
		break;
	}
	case CatalogType::INDEX_ENTRY:
		Name(info.catalog, info.schema, info.Cast<CreateIndexInfo>().table);
		break;
	default:
		break;
	}
}

void StatementReader::Merge(MergeIntoStatement &statement) {
	CommonTables(statement.cte_map);
	OptionalRef(statement.target);
	OptionalRef(statement.source);
	OptionalExpr(statement.join_condition);
	for (auto &entry : statement.actions) {
		for (auto &action : entry.second) {
			OptionalExpr(action->condition);
			SetInfo(action->update_info);
			Exprs(action->expressions);
		}
	}
	Exprs(statement.returning_list);
}

void StatementReader::Statement(SQLStatement &statement) {
	switch (statement.type) {
	case StatementType::SELECT_STATEMENT:
		Query(*statement.Cast<SelectStatement>().node);
		return;
	case StatementType::EXPLAIN_STATEMENT:
		Statement(*statement.Cast<ExplainStatement>().stmt);
		return;
	case StatementType::INSERT_STATEMENT: {
		auto &insert = statement.Cast<InsertStatement>();
		CommonTables(insert.cte_map);
		Name(insert.catalog, insert.schema, insert.table);
		if (insert.select_statement) {
			Query(*insert.select_statement->node);
		}
		Exprs(insert.returning_list);
		break;
	}
	case StatementType::UPDATE_STATEMENT: {
		auto &update = statement.Cast<UpdateStatement>();
		CommonTables(update.cte_map);
		OptionalRef(update.table);
		OptionalRef(update.from_table);
		SetInfo(update.set_info);
		Exprs(update.returning_list);
		break;
	}
	case StatementType::DELETE_STATEMENT: {
		auto &remove = statement.Cast<DeleteStatement>();
		CommonTables(remove.cte_map);
		OptionalRef(remove.table);
		for (auto &ref : remove.using_clauses) {
			Ref(*ref);
		}
		OptionalExpr(remove.condition);
		Exprs(remove.returning_list);
		break;
	}
	case StatementType::MERGE_INTO_STATEMENT:
		Merge(statement.Cast<MergeIntoStatement>());
		break;
	case StatementType::CREATE_STATEMENT:
		Create(*statement.Cast<CreateStatement>().info);
		break;
	case StatementType::ALTER_STATEMENT: {
		auto &info = *statement.Cast<AlterStatement>().info;
		Name(info.catalog, info.schema, info.name);
		break;
	}
	case StatementType::DROP_STATEMENT: {
		auto &info = *statement.Cast<DropStatement>().info;
		if (info.type == CatalogType::TABLE_ENTRY || info.type == CatalogType::VIEW_ENTRY) {
			Name(info.catalog, info.schema, info.name);
		}
		break;
	}
	case StatementType::COPY_STATEMENT: {
		auto &info = *statement.Cast<CopyStatement>().info;
		Name(info.catalog, info.schema, info.table);
		if (info.select_statement) {
			Query(*info.select_statement);
		}
		break;
	}
	case StatementType::MULTI_STATEMENT:
		for (auto &part : statement.Cast<MultiStatement>().statements) {
			Statement(*part);
		}
		break;
	default:
		break;
	}
	only_reads = false;
	common_tables.clear();
}

} // namespace

bool ReadStatement(const char *sql, size_t len, StatementReader::Table table, void *arg, bool *only_reads) {
	*only_reads = false;
	try {
		Parser parser;
		parser.ParseQuery(string(sql, len));
		StatementReader reader(table, arg);
		for (auto &statement : parser.statements) {
			reader.Statement(*statement);
		}
		*only_reads = reader.only_reads && !parser.statements.empty();
		return true;
	} catch (...) {
		return false;
	}
}

} // namespace openduck
