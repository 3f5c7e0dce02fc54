//===----------------------------------------------------------------------===//
// openduck/forward_rewrite_statement.cpp: what kinds of statements there are to forward
//===----------------------------------------------------------------------===//
#include "openduck/branches.hpp"
#include "openduck/forward_rewrite.hpp"

#include "duckdb/function/scalar_macro_function.hpp"
#include "duckdb/function/table_macro_function.hpp"
#include "duckdb/parser/constraints/list.hpp"
#include "duckdb/parser/expression/cast_expression.hpp"
#include "duckdb/parser/keyword_helper.hpp"
#include "duckdb/parser/parsed_data/alter_table_info.hpp"
#include "duckdb/parser/parsed_data/comment_on_column_info.hpp"
#include "duckdb/parser/parsed_data/create_index_info.hpp"
#include "duckdb/parser/parsed_data/create_macro_info.hpp"
#include "duckdb/parser/parsed_data/create_schema_info.hpp"
#include "duckdb/parser/parsed_data/create_sequence_info.hpp"
#include "duckdb/parser/parsed_data/create_table_info.hpp"
#include "duckdb/parser/parsed_data/create_type_info.hpp"
#include "duckdb/parser/parsed_data/create_view_info.hpp"
#include "duckdb/parser/parsed_data/drop_info.hpp"
#include "duckdb/parser/statement/merge_into_statement.hpp"

namespace openduck {

void ForwardRewriter::Rewrite(SQLStatement &statement) {
	switch (statement.type) {
	case StatementType::SELECT_STATEMENT:
		return Query(*statement.Cast<SelectStatement>().node);
	case StatementType::INSERT_STATEMENT:
		return Insert(statement.Cast<InsertStatement>());
	case StatementType::UPDATE_STATEMENT:
		return Update(statement.Cast<UpdateStatement>());
	case StatementType::DELETE_STATEMENT:
		return Delete(statement.Cast<DeleteStatement>());
	case StatementType::MERGE_INTO_STATEMENT:
		return Merge(statement.Cast<MergeIntoStatement>());
	case StatementType::CREATE_STATEMENT:
		return Create(*statement.Cast<CreateStatement>().info);
	case StatementType::DROP_STATEMENT:
		return Drop(*statement.Cast<DropStatement>().info);
	case StatementType::ALTER_STATEMENT:
		return Alter(*statement.Cast<AlterStatement>().info);
	default:
		throw NotForwardable("a statement of a kind that only this side runs");
	}
}

void ForwardRewriter::Place(string &catalog, string &schema) {
	if (names.ResolveNew(catalog, schema) != RemoteNames::Place::REMOTE) {
		throw NotForwardable("it belongs to this side");
	}
}

void ForwardRewriter::RefuseBranches(const string &catalog, const string &schema, const string &name) {
	auto table = names.FindBranched(catalog, schema, name);
	if (table) {
		throw NotForwardable(BranchesRefusal(table->name, table->catalog.GetName()), true);
	}
}

void ForwardRewriter::Target(TableRef &ref) {
	if (ref.type == TableReferenceType::BASE_TABLE) {
		auto &table = ref.Cast<BaseTableRef>();
		RefuseBranches(table.catalog_name, table.schema_name, table.table_name);
	}
	Table(ref);
}

void ForwardRewriter::PlaceExisting(CatalogType type, string &catalog, string &schema, const string &name) {
	if (type == CatalogType::TABLE_ENTRY) {
		RefuseBranches(catalog, schema, name);
	}
	if (names.Resolve(type, catalog, schema, name) != RemoteNames::Place::REMOTE) {
		throw NotForwardable("\"" + name + "\" belongs to this side");
	}
}

//===--------------------------------------------------------------------===//
// Rows
//===--------------------------------------------------------------------===//
void ForwardRewriter::Insert(InsertStatement &statement) {
	PlaceExisting(CatalogType::TABLE_ENTRY, statement.catalog, statement.schema, statement.table);
	CommonTables(statement.cte_map);
	if (statement.select_statement) {
		Query(*statement.select_statement->node);
	}
	if (statement.on_conflict_info) {
		OptionalExpr(statement.on_conflict_info->condition);
		if (statement.on_conflict_info->set_info) {
			SetInfo(*statement.on_conflict_info->set_info);
		}
	}
	Exprs(statement.returning_list);
}

void ForwardRewriter::SetInfo(UpdateSetInfo &info) {
	Exprs(info.expressions);
	OptionalExpr(info.condition);
}

void ForwardRewriter::Update(UpdateStatement &statement) {
	Target(*statement.table);
	CommonTables(statement.cte_map);
	if (statement.from_table) {
		Table(*statement.from_table);
	}
	SetInfo(*statement.set_info);
	Exprs(statement.returning_list);
}

void ForwardRewriter::Delete(DeleteStatement &statement) {
	Target(*statement.table);
	CommonTables(statement.cte_map);
	for (auto &table : statement.using_clauses) {
		Table(*table);
	}
	OptionalExpr(statement.condition);
	Exprs(statement.returning_list);
}

void ForwardRewriter::Merge(MergeIntoStatement &statement) {
	Target(*statement.target);
	CommonTables(statement.cte_map);
	Table(*statement.source);
	OptionalExpr(statement.join_condition);
	for (auto &entry : statement.actions) {
		for (auto &action : entry.second) {
			OptionalExpr(action->condition);
			if (action->update_info) {
				SetInfo(*action->update_info);
			}
			Exprs(action->expressions);
		}
	}
	Exprs(statement.returning_list);
}

//===--------------------------------------------------------------------===//
// CREATE
//===--------------------------------------------------------------------===//
void ForwardRewriter::Create(CreateInfo &info) {
	if (info.temporary) {
		throw NotForwardable("what is temporary belongs to this side");
	}
	switch (info.type) {
	case CatalogType::SCHEMA_ENTRY:
		if (names.ResolveSchema(info.catalog) != RemoteNames::Place::REMOTE) {
			throw NotForwardable("the schema belongs to this side");
		}
		return;
	case CatalogType::INDEX_ENTRY: {
		auto &index = info.Cast<CreateIndexInfo>();
		PlaceExisting(CatalogType::TABLE_ENTRY, info.catalog, info.schema, index.table);
		stored = true;
		Exprs(index.expressions);
		Exprs(index.parsed_expressions);
		return;
	}
	case CatalogType::TABLE_ENTRY: {
		auto &table = info.Cast<CreateTableInfo>();
		RefuseBranches(info.catalog, info.schema, table.table);
		Place(info.catalog, info.schema);
		if (table.query) {
			Query(*table.query->node);
		}
		stored = true;
		Columns(table.columns);
		Constraints(table.constraints);
		return;
	}
	case CatalogType::VIEW_ENTRY:
		RefuseBranches(info.catalog, info.schema, info.Cast<CreateViewInfo>().view_name);
		Place(info.catalog, info.schema);
		stored = true;
		names.LookFirstInTarget(info.schema);
		return Query(*info.Cast<CreateViewInfo>().query->node);
	case CatalogType::SEQUENCE_ENTRY:
		return Place(info.catalog, info.schema);
	case CatalogType::TYPE_ENTRY: {
		auto &type = info.Cast<CreateTypeInfo>();
		Place(info.catalog, info.schema);
		if (type.query) {
			Rewrite(*type.query);
		}
		return Type(type.type);
	}
	case CatalogType::MACRO_ENTRY:
	case CatalogType::TABLE_MACRO_ENTRY:
		Place(info.catalog, info.schema);
		return Macro(info);
	default:
		throw NotForwardable("an object of a kind that only this side has");
	}
}

void ForwardRewriter::Columns(ColumnList &columns) {
	for (idx_t i = 0; i < columns.LogicalColumnCount(); i++) {
		auto &column = columns.GetColumnMutable(LogicalIndex(i));
		Type(column.TypeMutable());
		if (column.Generated()) {
			auto expr = column.GeneratedExpression().Copy();
			if (column.Type().id() != LogicalTypeId::ANY) {
				expr = std::move(expr->Cast<CastExpression>().child); // DuckDB puts its cast around it again
			}
			Expr(expr);
			column.SetGeneratedExpression(std::move(expr));
		} else if (column.HasDefaultValue()) {
			auto expr = column.DefaultValue().Copy();
			Expr(expr);
			column.SetDefaultValue(std::move(expr));
		}
	}
}

void ForwardRewriter::Constraints(vector<unique_ptr<Constraint>> &constraints) {
	for (auto &constraint : constraints) {
		if (constraint->type == ConstraintType::CHECK) {
			Expr(constraint->Cast<CheckConstraint>().expression);
		} else if (constraint->type == ConstraintType::FOREIGN_KEY) {
			auto &info = constraint->Cast<ForeignKeyConstraint>().info;
			if (names.IsTarget(info.schema)) {
				info.schema = string();
			}
			// DuckDB writes these as they are.
			if (!info.schema.empty() && info.schema != DEFAULT_SCHEMA) {
				info.schema = KeywordHelper::WriteOptionallyQuoted(info.schema);
			}
			info.table = KeywordHelper::WriteOptionallyQuoted(info.table);
		}
	}
}

void ForwardRewriter::Macro(CreateInfo &info) {
	stored = true;
	for (auto &macro : info.Cast<CreateMacroInfo>().macros) {
		for (auto &type : macro->types) {
			Type(type);
		}
		for (auto &entry : macro->default_parameters) {
			Expr(entry.second);
		}
		if (macro->type == MacroType::SCALAR_MACRO) {
			Expr(macro->Cast<ScalarMacroFunction>().expression);
		} else {
			Query(*macro->Cast<TableMacroFunction>().query_node);
		}
	}
}

//===--------------------------------------------------------------------===//
// DROP, ALTER, COMMENT
//===--------------------------------------------------------------------===//
void ForwardRewriter::Drop(DropInfo &info) {
	switch (info.type) {
	case CatalogType::SCHEMA_ENTRY:
		if (names.ResolveSchema(info.catalog) != RemoteNames::Place::REMOTE) {
			throw NotForwardable("the schema belongs to this side");
		}
		return;
	case CatalogType::TABLE_ENTRY:
	case CatalogType::VIEW_ENTRY:
	case CatalogType::INDEX_ENTRY:
	case CatalogType::SEQUENCE_ENTRY:
	case CatalogType::TYPE_ENTRY:
		return PlaceExisting(info.type, info.catalog, info.schema, info.name);
	case CatalogType::MACRO_ENTRY:
		return PlaceExisting(CatalogType::SCALAR_FUNCTION_ENTRY, info.catalog, info.schema, info.name);
	case CatalogType::TABLE_MACRO_ENTRY:
		return PlaceExisting(CatalogType::TABLE_FUNCTION_ENTRY, info.catalog, info.schema, info.name);
	default:
		throw NotForwardable("an object of a kind that only this side has");
	}
}

void ForwardRewriter::Alter(AlterInfo &info) {
	auto type = CatalogType::TABLE_ENTRY;
	switch (info.type) {
	case AlterType::ALTER_TABLE:
	case AlterType::ALTER_VIEW:
	case AlterType::SET_COLUMN_COMMENT:
		break;
	case AlterType::SET_COMMENT:
		type = info.Cast<SetCommentInfo>().entry_catalog_type;
		break;
	case AlterType::CHANGE_OWNERSHIP:
		type = info.Cast<ChangeOwnershipInfo>().entry_catalog_type;
		break;
	default:
		throw NotForwardable("a change that only this side makes");
	}
	if (type == CatalogType::SCHEMA_ENTRY) {
		if (names.ResolveSchema(info.catalog) != RemoteNames::Place::REMOTE) {
			throw NotForwardable("the schema belongs to this side");
		}
		return;
	}
	if (type == CatalogType::MACRO_ENTRY) {
		type = CatalogType::SCALAR_FUNCTION_ENTRY;
	} else if (type == CatalogType::TABLE_MACRO_ENTRY) {
		type = CatalogType::TABLE_FUNCTION_ENTRY;
	}
	PlaceExisting(type, info.catalog, info.schema, info.name);
	stored = true;
	if (info.type == AlterType::CHANGE_OWNERSHIP) {
		auto &ownership = info.Cast<ChangeOwnershipInfo>();
		if (ownership.owner_schema.empty() || names.IsTarget(ownership.owner_schema)) {
			ownership.owner_schema = info.schema;
		}
	}
	if (info.type == AlterType::ALTER_TABLE) {
		AlterTable(info);
	}
}

void ForwardRewriter::AlterTable(AlterInfo &info) {
	auto column = [&](ColumnDefinition &definition) {
		Type(definition.TypeMutable());
		if (!definition.Generated() && definition.HasDefaultValue()) {
			auto expr = definition.DefaultValue().Copy();
			Expr(expr);
			definition.SetDefaultValue(std::move(expr));
		}
	};
	switch (info.Cast<AlterTableInfo>().alter_table_type) {
	case AlterTableType::ADD_COLUMN:
		return column(info.Cast<AddColumnInfo>().new_column);
	case AlterTableType::ADD_FIELD:
		return column(info.Cast<AddFieldInfo>().new_field);
	case AlterTableType::ALTER_COLUMN_TYPE: {
		auto &change = info.Cast<ChangeColumnTypeInfo>();
		Type(change.target_type);
		return OptionalExpr(change.expression);
	}
	case AlterTableType::SET_DEFAULT:
		return OptionalExpr(info.Cast<SetDefaultInfo>().expression);
	default:
		break;
	}
}

} // namespace openduck
