#include "openduck/view.hpp"

#include "openduck/catalog.hpp"

#include "duckdb/parser/expression/star_expression.hpp"
#include "duckdb/parser/parsed_data/create_view_info.hpp"
#include "duckdb/parser/parser.hpp"
#include "duckdb/parser/query_node/select_node.hpp"
#include "duckdb/parser/statement/create_statement.hpp"
#include "duckdb/parser/tableref/basetableref.hpp"

namespace openduck {

static unique_ptr<CreateViewInfo> ViewInfo(SchemaCatalogEntry &schema, const LoadedRelation &loaded) {
	auto result = make_uniq<CreateViewInfo>(schema, loaded.name);
	auto &info = *result;
	info.temporary = loaded.temporary;
	info.internal = loaded.internal;
	info.comment = loaded.comment;
	info.tags = loaded.tags;
	for (auto &column : loaded.columns) {
		if (!column.comment.IsNull()) {
			info.column_comments_map[column.name] = column.comment;
		}
	}
	return result;
}

OpenDuckViewEntry::OpenDuckViewEntry(RemoteTypes &types, CatalogSnapshot &snapshot, SchemaCatalogEntry &schema,
                                     const LoadedRelation &loaded, bool described)
    : ViewCatalogEntry(schema.ParentCatalog(), schema, *ViewInfo(schema, loaded)), described(described) {
	sql = loaded.sql;
	rows = make_uniq<OpenDuckTableEntry>(snapshot, schema, OpenDuckTableEntry::Build(types, schema, loaded), loaded);
	if (!loaded.columns.empty()) {
		column_info = make_shared_ptr<ViewColumnInfo>();
		for (auto &column : rows->RemoteColumns()) {
			column_info->names.push_back(column.name);
			column_info->types.push_back(column.type);
		}
	}
}

void OpenDuckViewEntry::SetProblem(ErrorData problem_p) {
	lock_guard<mutex> guard(lock);
	problem = std::move(problem_p);
}

shared_ptr<ViewColumnInfo> OpenDuckViewEntry::GetColumnInfo() const {
	return column_info;
}

void OpenDuckViewEntry::BindView(ClientContext &context, BindViewAction action) {
	if (!column_info) {
		throw BinderException("the server cannot bind view \"%s\" of database \"%s\"", name, catalog.GetName());
	}
}

void OpenDuckViewEntry::UpdateBinding(const vector<LogicalType> &types, const vector<string> &names) {
	// The server's word stands for the whole life of the snapshot.
}

unique_ptr<CreateInfo> OpenDuckViewEntry::GetInfo() const {
	auto result = make_uniq<CreateViewInfo>();
	try {
		Parser parser;
		parser.ParseQuery(sql);
		if (parser.statements.size() == 1 && parser.statements[0]->type == StatementType::CREATE_STATEMENT) {
			auto &info = parser.statements[0]->Cast<CreateStatement>().info;
			if (info->type == CatalogType::VIEW_ENTRY) {
				result = unique_ptr_cast<CreateInfo, CreateViewInfo>(std::move(info));
			}
		}
	} catch (std::exception &ex) {
		throw NotImplementedException("cannot read the definition of view \"%s\" of database \"%s\": %s", name,
		                              catalog.GetName(), ErrorData(ex).RawMessage());
	}
	result->catalog = catalog.GetName();
	result->schema = schema.name;
	result->view_name = name;
	result->sql = sql;
	result->temporary = temporary;
	result->internal = internal;
	result->comment = comment;
	result->tags = tags;
	if (column_info) {
		result->names = column_info->names;
		result->types = column_info->types;
	}
	return std::move(result);
}

unique_ptr<CatalogEntry> OpenDuckViewEntry::Copy(ClientContext &context) const {
	throw NotImplementedException("cannot copy view \"%s\" of database \"%s\"", name, catalog.GetName());
}

const SelectStatement &OpenDuckViewEntry::GetQuery() {
	auto catalog_name = catalog.GetName();
	lock_guard<mutex> guard(lock);
	if (problem.HasError()) {
		problem.Throw("cannot read view \"" + name + "\": ");
	}
	auto &slot = queries[catalog_name];
	if (!slot) {
		auto table = make_uniq<BaseTableRef>();
		table->catalog_name = catalog_name;
		table->schema_name = schema.name;
		table->table_name = HIDDEN_PREFIX + name;
		table->alias = name;
		auto node = make_uniq<SelectNode>();
		node->select_list.push_back(make_uniq<StarExpression>());
		node->from_table = std::move(table);
		slot = make_uniq<SelectStatement>();
		slot->node = std::move(node);
	}
	return *slot;
}

string OpenDuckViewEntry::ToSQL() const {
	return sql;
}

} // namespace openduck
