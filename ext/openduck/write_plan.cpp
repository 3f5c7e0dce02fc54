//===----------------------------------------------------------------------===//
// openduck/write_plan.cpp: INSERT, CREATE TABLE AS, UPDATE and DELETE whose rows are computed here
//===----------------------------------------------------------------------===//
#include "openduck/write_plan.hpp"

#include "openduck/branches.hpp"
#include "openduck/catalog.hpp"
#include "openduck/server_value.hpp"
#include "openduck/table.hpp"
#include "openduck/write_upsert.hpp"

#include "duckdb/execution/physical_plan_generator.hpp"
#include "duckdb/parser/keyword_helper.hpp"
#include "duckdb/parser/parsed_data/create_table_info.hpp"
#include "duckdb/planner/expression/bound_reference_expression.hpp"
#include "duckdb/planner/operator/logical_create_table.hpp"
#include "duckdb/planner/operator/logical_delete.hpp"
#include "duckdb/planner/operator/logical_insert.hpp"
#include "duckdb/planner/operator/logical_update.hpp"
#include "duckdb/planner/parsed_data/bound_create_table_info.hpp"

namespace openduck {

static string Identifier(const string &name) {
	return KeywordHelper::WriteQuoted(name, '"');
}

static OpenDuckTableEntry &Target(TableCatalogEntry &table) {
	auto &result = table.Cast<OpenDuckTableEntry>();
	RequireNoBranches(result);
	return result;
}

//! Adds a column of the operator's child; returns its name among the rows.
static string Stage(RemoteWriteInfo &info, idx_t from, const string &shown, const LogicalType &type) {
	auto name = "c" + to_string(info.from.size());
	info.staged.names.push_back(name);
	info.staged.shown.push_back(shown);
	info.staged.types.push_back(type);
	info.from.push_back(from);
	return Identifier(name);
}

//! The table's columns, in the order in which DuckDB numbers what RETURNING gives.
static string Returning(TableCatalogEntry &table) {
	string result;
	for (auto &column : table.GetColumns().Physical()) {
		result += (result.empty() ? " RETURNING " : ", ") + Identifier(column.Name());
	}
	return result;
}

//! Rows by number cannot be named if a column has taken the name.
static void RequireRowId(TableCatalogEntry &table, const string &what) {
	if (table.ColumnExists("rowid")) {
		throw NotImplementedException("%s of \"%s\", which has a column \"rowid\", is only supported if all that the "
		                              "statement reads is of database \"%s\"",
		                              what, table.name, table.ParentCatalog().GetName());
	}
}

static idx_t IndexOf(const Expression &expression) {
	return expression.Cast<BoundReferenceExpression>().index;
}

RemoteWriteInfo InsertInfo(TableCatalogEntry &table, const vector<InsertedColumn> &columns, bool returning) {
	RemoteWriteInfo info;
	info.name = "INSERT";
	info.target = Target(table).RemoteName();
	string names, values;
	for (auto &column : columns) {
		names += (names.empty() ? " (" : ", ") + Identifier(column.name);
		values += (values.empty() ? "" : ", ") + Stage(info, column.from, column.name, column.type);
	}
	info.head = "INSERT INTO " + info.target + names + ") SELECT " + values + " FROM ";
	info.returning = returning;
	if (returning) {
		info.tail = Returning(table);
	}
	return info;
}

RemoteWriteInfo DefaultsInfo(TableCatalogEntry &table, bool returning) {
	RemoteWriteInfo info;
	info.name = "INSERT";
	info.target = Target(table).RemoteName();
	info.head = "INSERT INTO " + info.target + " DEFAULT VALUES";
	info.once_a_row = true;
	info.returning = returning;
	if (returning) {
		info.tail = Returning(table);
	}
	return info;
}

RemoteWriteInfo UpdateInfo(TableCatalogEntry &table, const vector<PhysicalIndex> &columns,
                           const vector<unique_ptr<Expression>> &expressions, idx_t row_id, bool returning) {
	RequireRowId(table, "UPDATE");
	RemoteWriteInfo info;
	info.name = "UPDATE";
	info.target = Target(table).RemoteName();
	auto row = Stage(info, row_id, "rowid", LogicalType::ROW_TYPE);
	string assignments;
	for (idx_t i = 0; i < columns.size(); i++) {
		auto &column = table.GetColumns().GetColumn(columns[i]);
		string value = "DEFAULT";
		if (expressions[i]->GetExpressionType() != ExpressionType::VALUE_DEFAULT) {
			value = "openduck_new." + Stage(info, IndexOf(*expressions[i]), column.Name(), column.Type());
		}
		assignments += (assignments.empty() ? "" : ", ") + Identifier(column.Name()) + " = " + value;
	}
	info.head = "UPDATE " + info.target + " AS openduck_old SET " + assignments + " FROM ";
	info.tail = " AS openduck_new WHERE openduck_old.rowid = openduck_new." + row;
	info.returning = returning;
	if (returning) {
		info.tail += Returning(table);
	}
	return info;
}

RemoteWriteInfo DeleteInfo(TableCatalogEntry &table, idx_t row_id, bool returning) {
	RequireRowId(table, "DELETE");
	RemoteWriteInfo info;
	info.name = "DELETE";
	info.target = Target(table).RemoteName();
	auto row = Stage(info, row_id, "rowid", LogicalType::ROW_TYPE);
	info.head = "DELETE FROM " + info.target + " WHERE rowid IN (SELECT " + row + " FROM ";
	info.tail = ")";
	info.returning = returning;
	if (returning) {
		info.tail += Returning(table);
	}
	return info;
}

//! Which order the rows of PLAN are to arrive in, and whether several threads may send them.
static void SetOrder(ClientContext &context, PhysicalOperator &plan, RemoteWriteInfo &info) {
	info.ordered = PhysicalPlanGenerator::PreserveInsertionOrder(context, plan);
	info.parallel = !info.ordered || PhysicalPlanGenerator::UseBatchIndex(context, plan);
}

//===--------------------------------------------------------------------===//
// INSERT
//===--------------------------------------------------------------------===//
vector<InsertedColumn> InsertedColumns(TableCatalogEntry &table, const physical_index_vector_t<idx_t> &map) {
	vector<InsertedColumn> result;
	for (auto &column : table.GetColumns().Physical()) {
		auto from = map.empty() ? column.StorageOid() : map[column.Physical()];
		if (from != DConstants::INVALID_INDEX) {
			result.push_back({column.Name(), column.Type(), from});
		}
	}
	return result;
}

//! A value that the server is to compute for a column that the statement names. OR REPLACE would leave that column alone
//! if it were not sent.
static void RequireNoReplace(optional_ptr<LogicalUpsert> upsert, const string &column) {
	if (upsert && upsert->conflict.replace) {
		throw NotImplementedException(
		    "INSERT OR REPLACE with the DEFAULT of \"%s\", which only the server can evaluate, "
		    "beside values that are computed here, is not supported",
		    column);
	}
}

//! Makes of INFO, a plain INSERT, one that does as CONFLICT says.
static void AddConflict(RemoteWriteInfo &info, const ConflictClause &conflict) {
	auto plain = "INSERT INTO " + info.target;
	auto head = string("INSERT ") + (conflict.replace ? "OR REPLACE " : "") + "INTO " + info.target;
	if (!conflict.alias.empty()) {
		head += " AS " + Identifier(conflict.alias);
	}
	info.head = head + info.head.substr(plain.size());
	info.tail = conflict.sql + info.tail;
	info.parameters = conflict.parameters;
}

PhysicalOperator &OpenDuckCatalog::PlanInsert(ClientContext &context, PhysicalPlanGenerator &planner, LogicalInsert &op,
                                              optional_ptr<PhysicalOperator> plan) {
	RequireWritable("INSERT");
	auto upsert = dynamic_cast<LogicalUpsert *>(&op);
	vector<InsertedColumn> columns;
	for (auto &column : InsertedColumns(op.table, op.column_index_map)) {
		if (!TakeServerValue(*plan, column.from)) {
			columns.push_back(std::move(column));
		} else {
			RequireNoReplace(upsert, column.name);
		}
	}
	auto info =
	    columns.empty() ? DefaultsInfo(op.table, op.return_chunk) : InsertInfo(op.table, columns, op.return_chunk);
	if (upsert) {
		AddConflict(info, upsert->conflict);
	}
	SetOrder(context, *plan, info);
	info.single_pass = !op.return_chunk && !info.once_a_row && info.parameters.empty();
	auto &write = planner.Make<RemoteWrite>(op.types, *this, std::move(info), op.estimated_cardinality);
	write.children.push_back(*plan);
	return write;
}

//===--------------------------------------------------------------------===//
// CREATE TABLE AS
//===--------------------------------------------------------------------===//
//! What makes VALUE, of a staged type, a column of TYPE.
static string AsType(const string &value, const LogicalType &type) {
	auto created = CreatedTypeSql(type);
	if (created != StagedTypeSql(type)) {
		return "CAST(" + value + " AS " + created + ")";
	}
	if (type.id() == LogicalTypeId::VARCHAR && !StringType::GetCollation(type).empty()) {
		return value + " COLLATE " + StringType::GetCollation(type);
	}
	return value;
}

PhysicalOperator &OpenDuckCatalog::PlanCreateTableAs(ClientContext &context, PhysicalPlanGenerator &planner,
                                                     LogicalCreateTable &op, PhysicalOperator &plan) {
	RequireWritable("CREATE TABLE AS");
	auto &create = op.info->Base().Cast<CreateTableInfo>();
	if (Layout() && Layout()->FindTable(op.schema.name, create.table)) {
		throw BinderException(BranchesRefusal(create.table, GetName()));
	}
	RemoteWriteInfo info;
	info.name = "CREATE_TABLE_AS";
	info.target = Identifier(RemoteDatabase()) + "." + Identifier(op.schema.name) + "." + Identifier(create.table);
	string values, empty;
	for (auto &column : create.columns.Physical()) {
		auto name = Identifier(column.Name());
		auto value = Stage(info, column.StorageOid(), column.Name(), column.Type());
		auto separator = values.empty() ? "" : ", ";
		values += separator + AsType(value, column.Type()) + " AS " + name;
		empty +=
		    separator + AsType("CAST(NULL AS " + StagedTypeSql(column.Type()) + ")", column.Type()) + " AS " + name;
	}
	auto replace = create.on_conflict == OnCreateConflict::REPLACE_ON_CONFLICT ? "OR REPLACE " : "";
	auto head = string("CREATE ") + replace + "TABLE " + info.target + " AS SELECT ";
	info.head = head + values + " FROM ";
	info.without_rows = head + empty + " LIMIT 0";
	info.changes_catalog = true;
	SetOrder(context, plan, info);
	info.single_pass = true;
	auto &write = planner.Make<RemoteWrite>(op.types, *this, std::move(info), op.estimated_cardinality);
	write.children.push_back(plan);
	return write;
}

//===--------------------------------------------------------------------===//
// UPDATE, DELETE
//===--------------------------------------------------------------------===//
PhysicalOperator &OpenDuckCatalog::PlanUpdate(ClientContext &context, PhysicalPlanGenerator &planner, LogicalUpdate &op,
                                              PhysicalOperator &plan) {
	RequireWritable("UPDATE");
	auto row_id = plan.types.size() - 1;
	auto info = UpdateInfo(op.table, op.columns, op.expressions, row_id, op.return_chunk);
	auto &write = planner.Make<RemoteWrite>(op.types, *this, std::move(info), op.estimated_cardinality);
	write.children.push_back(plan);
	return write;
}

PhysicalOperator &OpenDuckCatalog::PlanDelete(ClientContext &context, PhysicalPlanGenerator &planner, LogicalDelete &op,
                                              PhysicalOperator &plan) {
	RequireWritable("DELETE");
	auto info = DeleteInfo(op.table, IndexOf(*op.expressions[0]), op.return_chunk);
	auto &write = planner.Make<RemoteWrite>(op.types, *this, std::move(info), op.estimated_cardinality);
	write.children.push_back(plan);
	return write;
}

} // namespace openduck
