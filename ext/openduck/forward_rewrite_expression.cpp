//===----------------------------------------------------------------------===//
// openduck/forward_rewrite_expression.cpp: the expressions of a forwarded statement
//===----------------------------------------------------------------------===//
#include "openduck/forward_rewrite.hpp"

#include "openduck/pushdown.hpp"

#include "duckdb/catalog/catalog_entry/scalar_function_catalog_entry.hpp"
#include "duckdb/execution/expression_executor.hpp"
#include "duckdb/parser/expression/list.hpp"
#include "duckdb/parser/parsed_expression_iterator.hpp"
#include "duckdb/parser/parser.hpp"
#include "duckdb/parser/qualified_name.hpp"
#include "duckdb/planner/binder.hpp"
#include "duckdb/planner/expression_binder/constant_binder.hpp"

namespace openduck {

//! Calls whose value is this session's: the clock of its transaction, its settings, its names.
static bool IsOfSession(const FunctionExpression &function) {
	static const case_insensitive_set_t NAMES = {"now",
	                                             "get_current_timestamp",
	                                             "transaction_timestamp",
	                                             "current_date",
	                                             "today",
	                                             "current_time",
	                                             "get_current_time",
	                                             "current_localtime",
	                                             "current_localtimestamp",
	                                             "current_setting",
	                                             "getvariable",
	                                             "current_catalog",
	                                             "current_database",
	                                             "current_schema",
	                                             "current_schemas",
	                                             "current_role",
	                                             "current_user",
	                                             "session_user",
	                                             "user",
	                                             "current_query",
	                                             "current_query_id",
	                                             "current_connection_id",
	                                             "current_transaction_id",
	                                             "txid_current",
	                                             "in_search_path",
	                                             "pg_my_temp_schema",
	                                             "ago"};
	auto &name = function.function_name;
	return NAMES.find(name) != NAMES.end() || (StringUtil::CIEquals(name, "age") && function.children.size() == 1);
}

//! What a bare word means where no column has that name; empty if it is nothing but a column.
static string SessionWord(const string &word) {
	static const case_insensitive_map_t<string> WORDS = {{"current_date", "current_date"},
	                                                     {"current_time", "get_current_time"},
	                                                     {"current_timestamp", "get_current_timestamp"},
	                                                     {"localtime", "current_localtime"},
	                                                     {"localtimestamp", "current_localtimestamp"},
	                                                     {"current_catalog", "current_catalog"},
	                                                     {"current_schema", "current_schema"}};
	auto entry = WORDS.find(word);
	return entry == WORDS.end() ? string() : entry->second;
}

//! Table functions that give the same rows wherever they run.
static bool IsPureTableFunction(const string &name) {
	static const case_insensitive_set_t NAMES = {"range",     "generate_series", "unnest",     "repeat",
	                                             "json_each", "json_tree",       "repeat_row", "unlist"};
	return NAMES.find(name) != NAMES.end();
}

//! EXPR with the types of the remote database called as the server calls them.
static unique_ptr<ParsedExpression> RenamedType(RemoteNames &names, const ParsedExpression &expr, bool &needs_server) {
	if (expr.GetExpressionClass() != ExpressionClass::TYPE) {
		return expr.Copy();
	}
	auto &type = expr.Cast<TypeExpression>();
	auto catalog = type.GetCatalog(), schema = type.GetSchema();
	auto qualified = !catalog.empty() || !schema.empty();
	auto place = names.Resolve(CatalogType::TYPE_ENTRY, catalog, schema, type.GetTypeName());
	if (place == RemoteNames::Place::LOCAL) {
		throw NotForwardable("\"" + type.GetTypeName() + "\" is a type of this side");
	}
	needs_server |= place != RemoteNames::Place::BUILT_IN;
	if (place != RemoteNames::Place::REMOTE || !qualified) {
		catalog = type.GetCatalog();
		schema = type.GetSchema();
	} else {
		catalog = string();
	}
	vector<unique_ptr<ParsedExpression>> children;
	for (auto &child : type.GetChildren()) {
		children.push_back(RenamedType(names, *child, needs_server));
	}
	auto result = make_uniq<TypeExpression>(catalog, schema, type.GetTypeName(), std::move(children));
	result->SetAlias(type.GetAlias());
	return std::move(result);
}

void ForwardRewriter::Exprs(vector<unique_ptr<ParsedExpression>> &list) {
	for (auto &expr : list) {
		Expr(expr);
	}
}

void ForwardRewriter::OptionalExpr(unique_ptr<ParsedExpression> &expr) {
	if (expr) {
		Expr(expr);
	}
}

static bool HasStar(const ParsedExpression &expr) {
	bool result = false;
	ParsedExpressionIterator::VisitExpressionClass(expr, ExpressionClass::STAR,
	                                               [&](const ParsedExpression &) { result = true; });
	return result;
}

void ForwardRewriter::NamedExprs(vector<unique_ptr<ParsedExpression>> &list) {
	for (auto &expr : list) {
		// A star stands for columns that have names.
		if (expr->HasAlias() || HasStar(*expr)) {
			Expr(expr);
			continue;
		}
		auto name = expr->GetName();
		reads_otherwise = false;
		Expr(expr);
		if (reads_otherwise || expr->GetName() != name) {
			expr->SetAlias(name);
		}
	}
}

void ForwardRewriter::Expr(unique_ptr<ParsedExpression> &expr) {
	switch (expr->GetExpressionClass()) {
	case ExpressionClass::COLUMN_REF:
		return ColumnRef(expr);
	case ExpressionClass::CONSTANT:
		return Constant(expr);
	case ExpressionClass::FUNCTION:
		return Function(expr);
	case ExpressionClass::PARAMETER:
		parameters.insert(expr->Cast<ParameterExpression>().identifier);
		return;
	case ExpressionClass::BOUND_EXPRESSION:
		throw NotForwardable("an expression that is bound here already");
	case ExpressionClass::SUBQUERY:
		Query(*expr->Cast<SubqueryExpression>().subquery->node);
		break;
	case ExpressionClass::CAST:
		// A type that the parser has put in (INTERVAL 1 DAY) is written otherwise when it is read from a text.
		reads_otherwise |= !expr->Cast<CastExpression>().cast_type.IsUnbound();
		Type(expr->Cast<CastExpression>().cast_type);
		break;
	case ExpressionClass::STAR:
		Star(expr->Cast<StarExpression>());
		break;
	case ExpressionClass::TYPE:
		expr = RenamedType(names, *expr, needs_server);
		return;
	case ExpressionClass::WINDOW: {
		auto &window = expr->Cast<WindowExpression>();
		FunctionName(CatalogType::SCALAR_FUNCTION_ENTRY, window.catalog, window.schema, window.function_name);
		break;
	}
	default:
		break;
	}
	ParsedExpressionIterator::EnumerateChildren(*expr, [&](unique_ptr<ParsedExpression> &child) { Expr(child); });
}

void ForwardRewriter::ColumnRef(unique_ptr<ParsedExpression> &expr) {
	auto &parts = expr->Cast<ColumnRefExpression>().column_names;
	// "cloud.t.c", "cloud.s.t.c"; two parts are a table and a column.
	if (parts.size() > 2 && names.IsTarget(parts[0])) {
		parts.erase(parts.begin());
		return;
	}
	auto word = parts.size() == 1 && !stored ? SessionWord(parts[0]) : string();
	if (!word.empty() && !names.HasColumn(parts[0])) {
		auto call = make_uniq<FunctionExpression>(word, vector<unique_ptr<ParsedExpression>>());
		call->SetAlias(expr->GetAlias());
		expr = std::move(call);
		Evaluate(expr);
	}
}

void ForwardRewriter::Constant(unique_ptr<ParsedExpression> &expr) {
	auto &value = expr->Cast<ConstantExpression>().value;
	auto id = value.type().id();
	if (value.IsNull() || (id != LogicalTypeId::DOUBLE && id != LogicalTypeId::FLOAT)) {
		return;
	}
	// "1e3" is a DOUBLE, and DuckDB writes it as "1000.0", which is a DECIMAL.
	string sql;
	if (!LiteralToSql(value, sql)) {
		throw NotForwardable("a number without a text");
	}
	auto alias = expr->GetAlias();
	expr = std::move(Parser::ParseExpressionList(sql)[0]);
	expr->SetAlias(alias);
}

void ForwardRewriter::FunctionName(CatalogType type, string &catalog, string &schema, const string &name) {
	auto function_catalog = catalog, function_schema = schema;
	auto place = names.Resolve(type, function_catalog, function_schema, name);
	if (place == RemoteNames::Place::LOCAL) {
		throw NotForwardable("\"" + name + "\" is a function of this side");
	}
	needs_server |= place != RemoteNames::Place::BUILT_IN;
	if (place != RemoteNames::Place::REMOTE || (catalog.empty() && schema.empty())) {
		// Known to every DuckDB, or to nobody here; or it is a method call, whose object stands before the point.
		return;
	}
	catalog = stored ? string() : function_catalog;
	schema = function_schema;
}

//! A function that Python or the C API has made stands among DuckDB's own, but it has come later.
static bool IsMadeHere(ClientContext &context, const string &name) {
	constexpr transaction_t OF_START = 1;
	EntryLookupInfo lookup(CatalogType::SCALAR_FUNCTION_ENTRY, name);
	auto entry =
	    Catalog::GetSystemCatalog(context).GetEntry(context, DEFAULT_SCHEMA, lookup, OnEntryNotFound::RETURN_NULL);
	return entry && entry->timestamp > OF_START;
}

void ForwardRewriter::Function(unique_ptr<ParsedExpression> &expr) {
	auto &function = expr->Cast<FunctionExpression>();
	if (!function.is_operator) {
		FunctionName(CatalogType::SCALAR_FUNCTION_ENTRY, function.catalog, function.schema, function.function_name);
		if (IsMadeHere(context, function.function_name)) {
			throw NotForwardable("\"" + function.function_name + "\" is a function of this side");
		}
	}
	if (!stored && function.schema.empty() && IsOfSession(function)) {
		return Evaluate(expr);
	}
	auto &name = function.function_name;
	if (function.children.size() == 1 &&
	    (StringUtil::CIEquals(name, "nextval") || StringUtil::CIEquals(name, "currval"))) {
		SequenceArgument(*function.children[0]);
	}
	ParsedExpressionIterator::EnumerateChildren(*expr, [&](unique_ptr<ParsedExpression> &child) { Expr(child); });
}

void ForwardRewriter::TableFunction(unique_ptr<ParsedExpression> &expr) {
	if (expr->GetExpressionClass() != ExpressionClass::FUNCTION) {
		throw NotForwardable("a table function of an unknown form");
	}
	auto &function = expr->Cast<FunctionExpression>();
	auto catalog = function.catalog, schema = function.schema;
	auto place = names.Resolve(CatalogType::TABLE_FUNCTION_ENTRY, catalog, schema, function.function_name);
	needs_server |= place != RemoteNames::Place::BUILT_IN;
	if (place == RemoteNames::Place::LOCAL ||
	    (place == RemoteNames::Place::BUILT_IN && !IsPureTableFunction(function.function_name))) {
		throw NotForwardable("\"" + function.function_name + "\" reads something of this side");
	}
	if (place == RemoteNames::Place::REMOTE && !(function.catalog.empty() && function.schema.empty())) {
		function.catalog = stored ? string() : catalog;
		function.schema = schema;
	}
	ParsedExpressionIterator::EnumerateChildren(*expr, [&](unique_ptr<ParsedExpression> &child) { Expr(child); });
}

void ForwardRewriter::SequenceArgument(ParsedExpression &argument) {
	if (argument.GetExpressionClass() != ExpressionClass::CONSTANT) {
		return;
	}
	auto &value = argument.Cast<ConstantExpression>().value;
	if (value.IsNull() || value.type().id() != LogicalTypeId::VARCHAR) {
		return;
	}
	auto name = QualifiedName::Parse(StringValue::Get(value));
	auto place = names.Resolve(CatalogType::SEQUENCE_ENTRY, name.catalog, name.schema, name.name);
	if (place != RemoteNames::Place::REMOTE) {
		throw NotForwardable("\"" + name.name + "\" is no sequence of the remote database");
	}
	needs_server = true;
	if (stored) {
		name.catalog = string();
	}
	value = Value(name.ToString());
}

void ForwardRewriter::Star(StarExpression &expr) {
	bool named = false;
	for (auto &column : expr.exclude_list) {
		named |= names.IsTarget(column.catalog);
	}
	if (!named) {
		return;
	}
	qualified_column_set_t excluded;
	for (auto &column : expr.exclude_list) {
		auto name = column;
		if (names.IsTarget(name.catalog)) {
			name.catalog = string();
		}
		excluded.insert(std::move(name));
	}
	expr.exclude_list = std::move(excluded);
}

void ForwardRewriter::Type(LogicalType &type) {
	if (type.IsUnbound()) {
		type = LogicalType::UNBOUND(RenamedType(names, *UnboundType::GetTypeExpression(type), needs_server));
	}
}

void ForwardRewriter::Evaluate(unique_ptr<ParsedExpression> &expr) {
	auto alias = expr->GetAlias();
	Value value;
	try {
		auto binder = Binder::CreateBinder(context);
		ConstantBinder constant_binder(*binder, context, "forwarded statement");
		auto copy = expr->Copy();
		auto bound = constant_binder.Bind(copy);
		value = ExpressionExecutor::EvaluateScalar(context, *bound, true);
	} catch (std::exception &ex) {
		throw NotForwardable("\"" + expr->ToString() + "\" depends on this session: " + ErrorData(ex).RawMessage());
	}
	string sql;
	if (!LiteralToSql(value, sql)) {
		throw NotForwardable("\"" + expr->ToString() + "\" depends on this session");
	}
	expr = std::move(Parser::ParseExpressionList(sql)[0]);
	expr->SetAlias(alias);
	holds_values = true;
}

} // namespace openduck
