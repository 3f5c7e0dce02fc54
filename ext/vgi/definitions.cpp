#include "vgi/definitions.hpp"

#include "duckdb/catalog/catalog_entry/scalar_macro_catalog_entry.hpp"
#include "duckdb/catalog/catalog_entry/table_macro_catalog_entry.hpp"
#include "duckdb/catalog/catalog_entry/view_catalog_entry.hpp"
#include "duckdb/function/scalar_macro_function.hpp"
#include "duckdb/function/table_macro_function.hpp"
#include "duckdb/parser/expression/columnref_expression.hpp"
#include "duckdb/parser/expression/constant_expression.hpp"
#include "duckdb/parser/parsed_data/create_macro_info.hpp"
#include "duckdb/parser/parsed_data/create_view_info.hpp"
#include "duckdb/parser/parser.hpp"
#include "duckdb/parser/statement/select_statement.hpp"

namespace vgi {

template <class TAGS>
static void AddTags(TAGS &tags, const od_vgi_pairs &pairs) {
	for (idx_t i = 0; i < pairs.count; i++) {
		tags[Text(pairs.items[i].key)] = Text(pairs.items[i].value);
	}
}

//! What DuckDB says to SQL of WHAT, with where it comes from.
template <class RESULT, class PARSE>
static RESULT Parsed(const VgiSchemaEntry &schema, const string &what, const string &name, PARSE parse) {
	try {
		return parse();
	} catch (std::exception &ex) {
		throw IOException("the VGI worker of \"%s\" defines %s \"%s\".\"%s\" by what cannot be parsed: %s",
		                  schema.catalog.GetName(), what, schema.name, name, ErrorData(ex).RawMessage());
	}
}

unique_ptr<CatalogEntry> MakeView(VgiSchemaEntry &schema, const od_vgi_view &view) {
	CreateViewInfo info(schema, Text(view.name));
	info.sql = Text(view.definition);
	info.query = Parsed<unique_ptr<SelectStatement>>(schema, "view", info.view_name,
	                                                 [&] { return CreateViewInfo::ParseSelect(info.sql); });
	if (view.comment.data) {
		info.comment = Value(Text(view.comment));
	}
	for (idx_t i = 0; i < view.column_comments.count; i++) {
		auto &pair = view.column_comments.items[i];
		info.column_comments_map[Text(pair.key)] = Value(Text(pair.value));
	}
	AddTags(info.tags, view.tags);
	return make_uniq<ViewCatalogEntry>(schema.catalog, schema, info);
}

static unique_ptr<MacroFunction> MacroBody(VgiSchemaEntry &schema, const od_vgi_macro &macro) {
	auto name = Text(macro.name);
	auto definition = Text(macro.definition);
	if (macro.is_table) {
		auto select = Parsed<unique_ptr<SelectStatement>>(schema, "macro", name,
		                                                  [&] { return CreateViewInfo::ParseSelect(definition); });
		return make_uniq<TableMacroFunction>(std::move(select->node));
	}
	auto list = Parsed<vector<unique_ptr<ParsedExpression>>>(schema, "macro", name,
	                                                         [&] { return Parser::ParseExpressionList(definition); });
	if (list.size() != 1) {
		throw IOException("the VGI worker of \"%s\" defines macro \"%s\".\"%s\" by %d expressions",
		                  schema.catalog.GetName(), schema.name, name, list.size());
	}
	return make_uniq<ScalarMacroFunction>(std::move(list[0]));
}

unique_ptr<CatalogEntry> MakeMacro(ClientContext &context, VgiSchemaEntry &schema, const od_vgi_macro &macro) {
	auto body = MacroBody(schema, macro);
	for (auto &name : Texts(macro.parameters)) {
		body->parameters.push_back(make_uniq<ColumnRefExpression>(name));
		body->types.push_back(LogicalType::UNKNOWN);
	}
	for (auto &value : ReadValues(context, macro.defaults)) {
		if (!value.value.IsNull()) {
			body->default_parameters[value.name] = make_uniq<ConstantExpression>(value.value);
		}
	}
	CreateMacroInfo info(macro.is_table ? CatalogType::TABLE_MACRO_ENTRY : CatalogType::MACRO_ENTRY);
	info.schema = schema.name;
	info.name = Text(macro.name);
	info.macros.push_back(std::move(body));
	if (macro.comment.data) {
		info.comment = Value(Text(macro.comment));
	}
	AddTags(info.tags, macro.tags);
	if (macro.is_table) {
		return make_uniq<TableMacroCatalogEntry>(schema.catalog, schema, info);
	}
	return make_uniq<ScalarMacroCatalogEntry>(schema.catalog, schema, info);
}

} // namespace vgi
