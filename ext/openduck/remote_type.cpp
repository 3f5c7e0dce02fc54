#include "openduck/remote_type.hpp"

#include "duckdb/parser/column_list.hpp"
#include "duckdb/parser/expression/type_expression.hpp"
#include "duckdb/parser/parser.hpp"
#include "duckdb/planner/binder.hpp"

namespace openduck {

//! Names every type of the tree as one of the system catalog, where built-in types and those of extensions are.
static unique_ptr<ParsedExpression> InSystem(const ParsedExpression &expr) {
	if (expr.GetExpressionClass() != ExpressionClass::TYPE) {
		return expr.Copy();
	}
	auto &type = expr.Cast<TypeExpression>();
	vector<unique_ptr<ParsedExpression>> children;
	for (auto &child : type.GetChildren()) {
		children.push_back(InSystem(*child));
	}
	auto result = make_uniq<TypeExpression>(SYSTEM_CATALOG, DEFAULT_SCHEMA, type.GetTypeName(), std::move(children));
	result->SetAlias(type.GetAlias());
	return std::move(result);
}

LogicalType BindRemoteType(ClientContext &context, const LogicalType &parsed) {
	if (!parsed.IsUnbound()) {
		return parsed;
	}
	auto type = LogicalType::UNBOUND(InSystem(*UnboundType::GetTypeExpression(parsed)));
	Binder::CreateBinder(context)->BindLogicalType(type);
	return type;
}

LogicalType ParseRemoteType(ClientContext &context, const string &text) {
	if (StringUtil::CIEquals(text, "\"NULL\"") || StringUtil::CIEquals(text, "NULL")) {
		return LogicalType::SQLNULL;
	}
	auto columns = Parser::ParseColumnList("c " + text);
	if (columns.LogicalColumnCount() != 1) {
		throw ParserException("'%s' is not a type", text);
	}
	return BindRemoteType(context, columns.GetColumn(LogicalIndex(0)).Type());
}

LogicalType RemoteTypes::Parse(const string &text) {
	auto entry = known.find(text);
	if (entry == known.end()) {
		entry = known.emplace(text, ParseRemoteType(context, text)).first;
	}
	return entry->second;
}

} // namespace openduck
