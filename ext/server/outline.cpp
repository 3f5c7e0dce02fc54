#include "server/outline.hpp"

#include "duckdb/common/exception/binder_exception.hpp"
#include "duckdb/common/exception/parser_exception.hpp"
#include "duckdb/common/string_util.hpp"
#include "duckdb/parser/expression/list.hpp"
#include "duckdb/parser/parsed_data/copy_info.hpp"
#include "duckdb/parser/parsed_data/create_table_info.hpp"
#include "duckdb/parser/parsed_expression_iterator.hpp"
#include "duckdb/parser/parser.hpp"
#include "duckdb/parser/query_node/cte_node.hpp"
#include "duckdb/parser/query_node/list.hpp"
#include "duckdb/parser/simplified_token.hpp"
#include "duckdb/parser/statement/list.hpp"
#include "duckdb/parser/statement/merge_into_statement.hpp"
#include "duckdb/parser/tableref/list.hpp"
#include "duckdb/parser/tableref/showref.hpp"

using namespace duckdb; // NOLINT

namespace openduck {
namespace {

constexpr const char *RUN = "openduck_run";
constexpr idx_t LONGEST_LABEL = 160;
constexpr unsigned DEEPEST = 1000;

using Expressions = vector<reference<ParsedExpression>>;

bool IsRun(const ParsedExpression &expr) {
	return expr.GetExpressionClass() == ExpressionClass::FUNCTION &&
	       StringUtil::CIEquals(expr.Cast<FunctionExpression>().function_name, RUN);
}

//! A condition without the parentheses that DuckDB puts around it
string Unwrapped(const string &text) {
	if (text.size() < 2 || text.front() != '(' || text.back() != ')') {
		return text;
	}
	idx_t open = 0;
	for (idx_t i = 0; i + 1 < text.size(); i++) {
		open += text[i] == '(';
		open -= text[i] == ')';
		if (open == 0) {
			return text;
		}
	}
	return text.substr(1, text.size() - 2);
}

string TextOf(const ParsedExpression &expr) {
	return Unwrapped(expr.ToString());
}

string TextOf(const Expressions &list) {
	return StringUtil::Join(list, list.size(), ", ", [](const ParsedExpression &expr) { return TextOf(expr); });
}

string Named(const string &catalog, const string &schema, const string &name) {
	return (catalog.empty() ? string() : catalog + ".") + (schema.empty() ? string() : schema + ".") + name;
}

class Walker {
public:
	Walker(const string &text, const od_outline_sink &sink) : sink(sink) {
		tokens = Parser::Tokenize(text);
		this->text = text;
	}

	void Statement(SQLStatement &statement, unsigned depth);

	bool found = false;

private:
	void Emit(od_outline_node &node, unsigned depth, const string &label) {
		if (depth > DEEPEST) {
			throw ParserException("the statement nests too deeply");
		}
		string line = label.substr(0, LONGEST_LABEL);
		while (line.size() < label.size() && !line.empty() && (label[line.size()] & 0xc0) == 0x80) {
			line.pop_back();
		}
		for (auto &c : line) {
			c = c == '\n' || c == '\r' || c == '\t' ? ' ' : c;
		}
		line += line.size() < label.size() ? "..." : "";
		node.depth = depth;
		node.label = line.c_str();
		if (!sink.take(sink.arg, &node)) {
			throw OutOfMemoryException("a plan");
		}
	}

	void Operator(unsigned depth, const string &name, const string &detail = string()) {
		od_outline_node node = {};
		node.kind = OD_OUTLINE_OPERATOR;
		Emit(node, depth, detail.empty() ? name : name + "(" + detail + ")");
	}

	//! One above INNER, with the queries in LIST
	void Above(unsigned depth, const string &name, const Expressions &list,
	           const std::function<void(unsigned)> &inner) {
		Operator(depth, name, TextOf(list));
		inner(depth + 1);
		for (auto &expr : list) {
			Queries(expr.get(), depth + 1);
		}
	}

	//! The end of the token that begins at START, or of the blanks that follow a name
	idx_t After(idx_t start) const {
		for (auto &token : tokens) {
			if (token.start > start) {
				return token.start;
			}
		}
		return text.size();
	}

	bool TokenAt(idx_t start, char c) const {
		return start < text.size() && text[start] == c;
	}

	void CallRange(idx_t start, od_outline_node &node) const;
	void NameRange(idx_t start, od_outline_node &node) const;
	void Run(const FunctionExpression &function, bool aliased, bool whole, unsigned depth);
	void Scan(const BaseTableRef &ref, bool fixed, unsigned depth);
	void Queries(ParsedExpression &expr, unsigned depth);
	void Each(const vector<unique_ptr<ParsedExpression>> &list, unsigned depth);
	void Query(QueryNode &node, unsigned depth);
	void Body(QueryNode &node, unsigned depth);
	void Modified(QueryNode &node, idx_t modifier_count, unsigned depth);
	void Select(SelectNode &node, unsigned depth);
	void Grouped(SelectNode &node, unsigned depth);
	void Filtered(SelectNode &node, unsigned depth);
	void Table(TableRef &ref, unsigned depth);
	void Join(JoinRef &ref, unsigned depth);
	void Target(TableRef &ref, unsigned depth);
	void Set(UpdateSetInfo &info, unsigned depth);
	void With(CommonTableExpressionMap &map, unsigned &depth);
	void Insert(InsertStatement &statement, unsigned depth);
	void Update(UpdateStatement &statement, unsigned depth);
	void Delete(DeleteStatement &statement, unsigned depth);
	void Merge(MergeIntoStatement &statement, unsigned depth);

	const od_outline_sink &sink;
	string text;
	vector<SimplifiedToken> tokens;
	//! Names of WITH that are seen here
	vector<string> seen;
};

//===--------------------------------------------------------------------===//
// Leaves
//===--------------------------------------------------------------------===//
//! From the function's name to the parenthesis that closes its arguments
void Walker::CallRange(idx_t start, od_outline_node &node) const {
	idx_t open = 0;
	for (auto &token : tokens) {
		if (token.start < start || token.type != SimplifiedTokenType::SIMPLIFIED_TOKEN_OPERATOR) {
			continue;
		}
		open += TokenAt(token.start, '(');
		if (TokenAt(token.start, ')') && --open == 0) {
			node.start = start;
			node.len = token.start + 1 - start;
			return;
		}
	}
	throw ParserException("the end of a call of openduck_run is not found");
}

//! A name and what follows it with dots, and an old mark of a table with all that inherit from it
void Walker::NameRange(idx_t start, od_outline_node &node) const {
	idx_t end = start;
	bool dot = true;
	for (auto &token : tokens) {
		if (token.start < start) {
			// ONLY t and ONLY (t) take a name and nothing else.
			node.fixed =
			    StringUtil::CIEquals(text.substr(token.start, 4), "only") || (node.fixed && TokenAt(token.start, '('));
			continue;
		}
		bool is_operator = token.type == SimplifiedTokenType::SIMPLIFIED_TOKEN_OPERATOR;
		bool is_dot = is_operator && TokenAt(token.start, '.');
		bool is_mark = is_operator && !dot && TokenAt(token.start, '*');
		if (is_dot == dot && !is_mark) {
			break;
		}
		dot = is_dot;
		end = After(token.start);
		if (is_mark) {
			break;
		}
	}
	node.start = start;
	node.len = end - start;
}

const char *TextArgument(const FunctionExpression &function, idx_t i, string &out) {
	auto &argument = *function.children[i];
	if (argument.GetExpressionClass() != ExpressionClass::CONSTANT || argument.HasAlias()) {
		throw BinderException(
		    "openduck_run takes two string literals: where ('LOCAL', 'REMOTE' or 'AUTO') and a query");
	}
	auto &value = argument.Cast<ConstantExpression>().value;
	if (value.IsNull() || value.type().id() != LogicalTypeId::VARCHAR) {
		throw BinderException(
		    "openduck_run takes two string literals: where ('LOCAL', 'REMOTE' or 'AUTO') and a query");
	}
	out = StringValue::Get(value);
	return out.c_str();
}

void Walker::Run(const FunctionExpression &function, bool aliased, bool whole, unsigned depth) {
	od_outline_node node = {};
	string where, sql;
	if (function.children.size() != 2) {
		throw BinderException(
		    "openduck_run takes two string literals: where ('LOCAL', 'REMOTE' or 'AUTO') and a query");
	}
	node.kind = OD_OUTLINE_RUN;
	node.where = TextArgument(function, 0, where);
	node.sql = TextArgument(function, 1, sql);
	node.aliased = aliased;
	node.whole = whole;
	if (whole) {
		node.len = text.size();
	} else if (function.GetQueryLocation().IsValid()) {
		CallRange(function.GetQueryLocation().GetIndex(), node);
	} else {
		throw ParserException("the place of a call of openduck_run is not known");
	}
	found = true;
	Emit(node, depth, RUN);
}

void Walker::Scan(const BaseTableRef &ref, bool fixed, unsigned depth) {
	if (ref.catalog_name.empty() && ref.schema_name.empty()) {
		for (auto &name : seen) {
			if (StringUtil::CIEquals(name, ref.table_name)) {
				Operator(depth, "CteScan", ref.table_name);
				return;
			}
		}
	}
	od_outline_node node = {};
	node.kind = OD_OUTLINE_SCAN;
	node.catalog = ref.catalog_name.c_str();
	node.schema = ref.schema_name.c_str();
	node.name = ref.table_name.c_str();
	node.aliased = !ref.alias.empty();
	if (ref.query_location.IsValid()) {
		NameRange(ref.query_location.GetIndex(), node);
	}
	node.fixed = node.fixed || fixed || ref.at_clause || !ref.query_location.IsValid();
	Emit(node, depth, "Scan(" + Named(ref.catalog_name, ref.schema_name, ref.table_name) + ")");
}

//===--------------------------------------------------------------------===//
// Expressions
//===--------------------------------------------------------------------===//
void Walker::Queries(ParsedExpression &expr, unsigned depth) {
	if (IsRun(expr)) {
		throw BinderException("openduck_run gives a table: it belongs into FROM");
	}
	if (expr.GetExpressionClass() == ExpressionClass::SUBQUERY) {
		Query(*expr.Cast<SubqueryExpression>().subquery->node, depth);
	}
	ParsedExpressionIterator::EnumerateChildren(expr, [&](ParsedExpression &child) { Queries(child, depth); });
}

void Walker::Each(const vector<unique_ptr<ParsedExpression>> &list, unsigned depth) {
	for (auto &expr : list) {
		Queries(*expr, depth);
	}
}

//===--------------------------------------------------------------------===//
// Queries
//===--------------------------------------------------------------------===//
void Walker::With(CommonTableExpressionMap &map, unsigned &depth) {
	if (map.map.empty()) {
		return;
	}
	Operator(depth++, "With");
	for (auto &entry : map.map) {
		auto &node = *entry.second->query->node;
		bool recursive = node.type == QueryNodeType::RECURSIVE_CTE_NODE;
		Operator(depth, "Cte", entry.first);
		if (recursive) {
			seen.push_back(entry.first);
		}
		Query(node, depth + 1);
		if (!recursive) {
			seen.push_back(entry.first);
		}
	}
}

void Walker::Query(QueryNode &node, unsigned depth) {
	auto outer = seen.size();
	With(node.cte_map, depth);
	Modified(node, node.modifiers.size(), depth);
	seen.resize(outer);
}

//! The first MODIFIER_COUNT modifiers of NODE, the last one on top
void Walker::Modified(QueryNode &node, idx_t modifier_count, unsigned depth) {
	if (modifier_count == 0) {
		Body(node, depth);
		return;
	}
	auto &modifier = *node.modifiers[modifier_count - 1];
	Expressions list;
	string name = "Limit";
	switch (modifier.type) {
	case ResultModifierType::ORDER_MODIFIER:
		name = "OrderBy";
		for (auto &order : modifier.Cast<OrderModifier>().orders) {
			list.push_back(*order.expression);
		}
		break;
	case ResultModifierType::DISTINCT_MODIFIER:
		name = "Distinct";
		for (auto &target : modifier.Cast<DistinctModifier>().distinct_on_targets) {
			list.push_back(*target);
		}
		break;
	case ResultModifierType::LIMIT_MODIFIER: {
		auto &limit = modifier.Cast<LimitModifier>();
		for (auto expr : {limit.limit.get(), limit.offset.get()}) {
			if (expr) {
				list.push_back(*expr);
			}
		}
		break;
	}
	default: {
		auto &limit = modifier.Cast<LimitPercentModifier>();
		if (limit.limit) {
			list.push_back(*limit.limit);
		}
		break;
	}
	}
	Above(depth, name, list, [&](unsigned below) { Modified(node, modifier_count - 1, below); });
}

void Walker::Body(QueryNode &node, unsigned depth) {
	switch (node.type) {
	case QueryNodeType::SELECT_NODE:
		Select(node.Cast<SelectNode>(), depth);
		break;
	case QueryNodeType::SET_OPERATION_NODE: {
		auto &set = node.Cast<SetOperationNode>();
		auto name = EnumUtil::ToString(set.setop_type);
		Operator(depth, StringUtil::Title(StringUtil::Replace(name, "_", "")), set.setop_all ? "ALL" : "");
		for (auto &child : set.children) {
			Query(*child, depth + 1);
		}
		break;
	}
	case QueryNodeType::RECURSIVE_CTE_NODE: {
		auto &recursive = node.Cast<RecursiveCTENode>();
		Operator(depth, "Recursive");
		Query(*recursive.left, depth + 1);
		Query(*recursive.right, depth + 1);
		break;
	}
	default:
		Operator(depth, "Query");
		break;
	}
}

void Walker::Select(SelectNode &node, unsigned depth) {
	Expressions list;
	for (auto &expr : node.select_list) {
		list.push_back(*expr);
	}
	auto below = [&](unsigned inner) {
		if (node.qualify) {
			Above(inner, "Filter", {*node.qualify}, [&](unsigned next) { Grouped(node, next); });
		} else {
			Grouped(node, inner);
		}
	};
	bool all =
	    list.size() == 1 && list[0].get().GetExpressionClass() == ExpressionClass::STAR && TextOf(list[0].get()) == "*";
	if (all) {
		below(depth);
	} else {
		Above(depth, "Project", list, below);
	}
}

void Walker::Grouped(SelectNode &node, unsigned depth) {
	Expressions groups;
	for (auto &expr : node.groups.group_expressions) {
		groups.push_back(*expr);
	}
	auto below = [&](unsigned inner) {
		if (groups.empty()) {
			Filtered(node, inner);
		} else {
			Above(inner, "Aggregate", groups, [&](unsigned next) { Filtered(node, next); });
		}
	};
	if (node.having) {
		Above(depth, "Filter", {*node.having}, below);
	} else {
		below(depth);
	}
}

void Walker::Filtered(SelectNode &node, unsigned depth) {
	if (node.where_clause) {
		Above(depth, "Filter", {*node.where_clause}, [&](unsigned below) { Table(*node.from_table, below); });
	} else {
		Table(*node.from_table, depth);
	}
}

//===--------------------------------------------------------------------===//
// FROM
//===--------------------------------------------------------------------===//
void Walker::Join(JoinRef &ref, unsigned depth) {
	static const char *const NAMES[] = {"",         "NaturalJoin",  "CrossProduct", "PositionalJoin",
	                                    "AsofJoin", "DependentJoin"};
	string name = NAMES[static_cast<uint8_t>(ref.ref_type)];
	Expressions on;
	if (ref.ref_type == JoinRefType::REGULAR) {
		auto equal = ref.condition && ref.condition->type != ExpressionType::COMPARE_EQUAL &&
		             ref.condition->type != ExpressionType::CONJUNCTION_AND &&
		             ref.condition->type != ExpressionType::COMPARE_NOT_DISTINCT_FROM;
		name = equal ? "NestedLoopJoin" : "HashJoin";
	}
	auto detail = StringUtil::Join(ref.using_columns, ", ");
	if (ref.condition) {
		on.push_back(*ref.condition);
		detail = TextOf(on);
	}
	if (ref.type != JoinType::INNER) {
		detail = EnumUtil::ToString(ref.type) + (detail.empty() ? "" : ", " + detail);
	}
	Operator(depth, name, detail);
	Table(*ref.left, depth + 1);
	Table(*ref.right, depth + 1);
	for (auto &expr : on) {
		Queries(expr.get(), depth + 1);
	}
}

void Walker::Table(TableRef &ref, unsigned depth) {
	switch (ref.type) {
	case TableReferenceType::BASE_TABLE:
		Scan(ref.Cast<BaseTableRef>(), false, depth);
		break;
	case TableReferenceType::SUBQUERY:
		Query(*ref.Cast<SubqueryRef>().subquery->node, depth);
		break;
	case TableReferenceType::JOIN:
		Join(ref.Cast<JoinRef>(), depth);
		break;
	case TableReferenceType::TABLE_FUNCTION: {
		auto &function = ref.Cast<TableFunctionRef>();
		if (IsRun(*function.function)) {
			if (function.with_ordinality == OrdinalityType::WITH_ORDINALITY) {
				throw BinderException("openduck_run has no WITH ORDINALITY: use row_number() OVER ()");
			}
			Run(function.function->Cast<FunctionExpression>(), !ref.alias.empty(), false, depth);
			break;
		}
		Operator(depth, "TableFunction", function.function->ToString());
		if (function.subquery) {
			Query(*function.subquery->node, depth + 1);
		}
		Queries(*function.function, depth + 1);
		break;
	}
	case TableReferenceType::PIVOT: {
		auto &pivot = ref.Cast<PivotRef>();
		Operator(depth, "Pivot");
		Table(*pivot.source, depth + 1);
		break;
	}
	case TableReferenceType::EXPRESSION_LIST:
		Operator(depth, "Values");
		for (auto &row : ref.Cast<ExpressionListRef>().values) {
			for (auto &value : row) {
				Queries(*value, depth + 1);
			}
		}
		break;
	case TableReferenceType::SHOW_REF: {
		auto &show = ref.Cast<ShowRef>();
		Operator(depth, "Show", show.table_name);
		if (show.query) {
			Query(*show.query, depth + 1);
		}
		break;
	}
	default:
		Operator(depth, "OneRow");
		break;
	}
}

//===--------------------------------------------------------------------===//
// Statements
//===--------------------------------------------------------------------===//
//! A table that is changed, and so stays where it is
void Walker::Target(TableRef &ref, unsigned depth) {
	if (ref.type == TableReferenceType::BASE_TABLE) {
		Scan(ref.Cast<BaseTableRef>(), true, depth);
	} else {
		Table(ref, depth);
	}
}

void Walker::Set(UpdateSetInfo &info, unsigned depth) {
	Each(info.expressions, depth);
	if (info.condition) {
		Queries(*info.condition, depth);
	}
}

void Walker::Insert(InsertStatement &statement, unsigned depth) {
	With(statement.cte_map, depth);
	Operator(depth, "Insert", Named(statement.catalog, statement.schema, statement.table));
	BaseTableRef target;
	target.catalog_name = statement.catalog;
	target.schema_name = statement.schema;
	target.table_name = statement.table;
	auto names = std::move(seen);
	Scan(target, true, depth + 1);
	seen = std::move(names);
	if (statement.select_statement) {
		Query(*statement.select_statement->node, depth + 1);
	}
	Each(statement.returning_list, depth + 1);
}

void Walker::Update(UpdateStatement &statement, unsigned depth) {
	With(statement.cte_map, depth);
	Operator(depth, "Update");
	Target(*statement.table, depth + 1);
	if (statement.from_table) {
		Table(*statement.from_table, depth + 1);
	}
	Set(*statement.set_info, depth + 1);
	Each(statement.returning_list, depth + 1);
}

void Walker::Delete(DeleteStatement &statement, unsigned depth) {
	With(statement.cte_map, depth);
	Operator(depth, "Delete");
	Target(*statement.table, depth + 1);
	for (auto &ref : statement.using_clauses) {
		Table(*ref, depth + 1);
	}
	if (statement.condition) {
		Queries(*statement.condition, depth + 1);
	}
	Each(statement.returning_list, depth + 1);
}

void Walker::Merge(MergeIntoStatement &statement, unsigned depth) {
	With(statement.cte_map, depth);
	Operator(depth, "Merge");
	Target(*statement.target, depth + 1);
	Table(*statement.source, depth + 1);
	if (statement.join_condition) {
		Queries(*statement.join_condition, depth + 1);
	}
	for (auto &entry : statement.actions) {
		for (auto &action : entry.second) {
			if (action->condition) {
				Queries(*action->condition, depth + 1);
			}
			if (action->update_info) {
				Set(*action->update_info, depth + 1);
			}
			Each(action->expressions, depth + 1);
		}
	}
	Each(statement.returning_list, depth + 1);
}

void Walker::Statement(SQLStatement &statement, unsigned depth) {
	auto outer = seen.size();
	switch (statement.type) {
	case StatementType::SELECT_STATEMENT:
		Query(*statement.Cast<SelectStatement>().node, depth);
		break;
	case StatementType::INSERT_STATEMENT:
		Insert(statement.Cast<InsertStatement>(), depth);
		break;
	case StatementType::UPDATE_STATEMENT:
		Update(statement.Cast<UpdateStatement>(), depth);
		break;
	case StatementType::DELETE_STATEMENT:
		Delete(statement.Cast<DeleteStatement>(), depth);
		break;
	case StatementType::MERGE_INTO_STATEMENT:
		Merge(statement.Cast<MergeIntoStatement>(), depth);
		break;
	case StatementType::EXPLAIN_STATEMENT:
		Statement(*statement.Cast<ExplainStatement>().stmt, depth);
		break;
	case StatementType::CREATE_STATEMENT: {
		auto &info = *statement.Cast<CreateStatement>().info;
		if (info.type != CatalogType::TABLE_ENTRY || !info.Cast<CreateTableInfo>().query) {
			break;
		}
		auto &table = info.Cast<CreateTableInfo>();
		Operator(depth, "CreateTableAs", Named(table.catalog, table.schema, table.table));
		Query(*table.query->node, depth + 1);
		break;
	}
	case StatementType::COPY_STATEMENT: {
		auto &info = *statement.Cast<CopyStatement>().info;
		if (info.select_statement) {
			Operator(depth, "Copy");
			Query(*info.select_statement, depth + 1);
		}
		break;
	}
	case StatementType::CALL_STATEMENT: {
		auto &function = *statement.Cast<CallStatement>().function;
		if (IsRun(function)) {
			Run(function.Cast<FunctionExpression>(), false, true, depth);
		}
		break;
	}
	default:
		break;
	}
	seen.resize(outer);
}

//===--------------------------------------------------------------------===//
// The text
//===--------------------------------------------------------------------===//
od_outline_root RootOf(const vector<unique_ptr<SQLStatement>> &statements, const string &text) {
	od_outline_root root = {text.data(), text.size(), false, false};
	if (statements.size() != 1) {
		return root;
	}
	reference<SQLStatement> statement(*statements[0]);
	if (statement.get().type == StatementType::EXPLAIN_STATEMENT) {
		auto &explain = statement.get().Cast<ExplainStatement>();
		root.explain = explain.explain_type != ExplainType::EXPLAIN_ANALYZE;
		statement = *explain.stmt;
	}
	root.query = statement.get().type == StatementType::SELECT_STATEMENT;
	return root;
}

//! A text that is a call and nothing else is no statement for DuckDB
bool IsCall(const string &sql, Parser &parser) {
	try {
		parser.ParseQuery("CALL " + sql);
	} catch (std::exception &) {
		return false;
	}
	return parser.statements.size() == 1 && parser.statements[0]->type == StatementType::CALL_STATEMENT &&
	       IsRun(*parser.statements[0]->Cast<CallStatement>().function);
}

} // namespace

void Outline(const string &sql, const od_outline_sink &sink) {
	string text;
	if (!Parser::StripUnicodeSpaces(sql, text)) {
		text = sql;
	}
	Parser parser;
	try {
		parser.ParseQuery(text);
	} catch (std::exception &) {
		Parser call;
		if (!IsCall(text, call)) {
			throw;
		}
		parser.statements = std::move(call.statements);
	}
	// Without its semicolon it can be a part of another text.
	auto tokens = Parser::Tokenize(text);
	while (!tokens.empty() && text[tokens.back().start] == ';') {
		text[tokens.back().start] = ' ';
		tokens.pop_back();
	}
	if (parser.statements.empty()) {
		throw ParserException("there is no statement");
	}
	auto root = RootOf(parser.statements, text);
	if (!sink.begin(sink.arg, &root)) {
		throw OutOfMemoryException("a plan");
	}
	Walker walker(text, sink);
	for (auto &statement : parser.statements) {
		walker.Statement(*statement, 0);
	}
	if (walker.found && parser.statements.size() > 1) {
		throw BinderException("openduck_run: the statement has to come alone");
	}
}

} // namespace openduck
