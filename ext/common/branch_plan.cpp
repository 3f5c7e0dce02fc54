//===----------------------------------------------------------------------===//
// common/branch_plan.cpp: the optimizer puts a table's branches where its scan stands
//===----------------------------------------------------------------------===//
#include "common/branches.hpp"
#include "common/event.hpp"
#include "common/plan_copies.hpp"

#include "duckdb/main/extension_helper.hpp"
#include "duckdb/parser/expression/columnref_expression.hpp"
#include "duckdb/planner/expression/bound_cast_expression.hpp"
#include "duckdb/planner/expression/bound_columnref_expression.hpp"
#include "duckdb/planner/expression/bound_constant_expression.hpp"
#include "duckdb/planner/expression_binder/where_binder.hpp"
#include "duckdb/planner/operator/logical_filter.hpp"
#include "duckdb/planner/operator/logical_projection.hpp"
#include "duckdb/planner/operator/logical_set_operation.hpp"

extern "C" {
#include "vgi/branch.h"
}

namespace openduck {

//===--------------------------------------------------------------------===//
// The place
//===--------------------------------------------------------------------===//
BranchesBindData::BranchesBindData(TableCatalogEntry &table, const string &family)
    : table(table), shown {family, table.schema.name, table.name} {
}

static void RefuseToRun(ClientContext &, TableFunctionInput &input, DataChunk &) {
	throw NotImplementedException("%s cannot be read without the optimizer (PRAGMA enable_optimizer)",
	                              input.bind_data->Cast<BranchesBindData>().shown.Quoted());
}

static unique_ptr<NodeStatistics> BranchesCardinality(ClientContext &, const FunctionData *bind) {
	auto rows = bind->Cast<BranchesBindData>().EstimatedRows();
	return rows.IsValid() ? make_uniq<NodeStatistics>(rows.GetIndex()) : make_uniq<NodeStatistics>();
}

static BindInfo BranchesBindInfo(const optional_ptr<FunctionData> bind) {
	return BindInfo(bind->Cast<BranchesBindData>().table);
}

TableFunction BranchesFunction(const string &name, const TableCatalogEntry &table) {
	TableFunction function(name, {}, RefuseToRun);
	function.projection_pushdown = true;
	function.cardinality = BranchesCardinality;
	if (!table.GetRowIdColumns().empty()) {
		// What has a row id is a base table to DuckDB's binder.
		function.get_bind_info = BranchesBindInfo;
	}
	RefuseCopies(function);
	return function;
}

bool IsBranchesScan(const LogicalOperator &op) {
	return op.type == LogicalOperatorType::LOGICAL_GET && op.Cast<LogicalGet>().function.function == RefuseToRun;
}

//===--------------------------------------------------------------------===//
// What stands there afterwards
//===--------------------------------------------------------------------===//
static void LoadExtensions(ClientContext &context, const BranchesBindData &place) {
	for (auto &extension : place.RequiredExtensions()) {
		auto name = ExtensionHelper::ApplyExtensionAlias(extension);
		auto &database = DatabaseInstance::GetDatabase(context);
		if (database.ExtensionIsLoaded(name) || ExtensionHelper::TryAutoLoadExtension(context, name)) {
			continue;
		}
		throw BinderException(
		    "%s needs the extension '%s', which is not loaded and could not be: INSTALL and LOAD it first",
		    place.shown.Quoted(), name);
	}
}

//! A column of an arm: the name under which it is matched, and where it is.
struct MatchedColumn {
	string name;
	idx_t index;
};

//! The columns of an arm that are matched by name: all of them. Where the arm is all of the table, a function of the catalog's own: those that the
//! table has; or, if it has as many, but not those names, the table's names by place.
static vector<MatchedColumn> MatchedColumns(const BranchesBindData &place, const BoundArm &arm, bool only_arm) {
	auto &told = place.Columns();
	case_insensitive_set_t names;
	for (auto &column : told) {
		names.insert(column.name);
	}
	bool by_function = only_arm && arm.is_own_function;
	vector<MatchedColumn> result;
	for (idx_t i = 0; i < arm.names.size(); i++) {
		if (!by_function || names.count(arm.names[i]) > 0) {
			result.push_back({arm.names[i], i});
		}
	}
	if (by_function && result.size() < told.size() && told.size() == arm.names.size()) {
		result.clear();
		for (idx_t i = 0; i < told.size(); i++) {
			result.push_back({told[i].name, i});
		}
	}
	return result;
}

//! How each of the table's columns comes from the arm's.
static vector<od_column_plan> PlanColumns(const BranchesBindData &place, const BoundArm &arm, bool only_arm) {
	auto matched = MatchedColumns(place, arm, only_arm);
	vector<string> types;
	vector<od_branch_column> wanted, given;
	auto &columns = place.Columns();
	for (auto &column : columns) {
		types.push_back(column.type.ToString());
	}
	for (auto &column : matched) {
		types.push_back(arm.types[column.index].ToString());
	}
	idx_t next = 0;
	for (auto &column : columns) {
		wanted.push_back({column.name.c_str(), types[next++].c_str()});
	}
	for (auto &column : matched) {
		given.push_back({column.name.c_str(), types[next++].c_str()});
	}
	vector<od_column_plan> result(wanted.size());
	od_error err = {};
	auto code = od_branch_columns_plan(wanted.data(), wanted.size(), given.data(), given.size(), result.data(), &err);
	if (code != OD_OK) {
		throw BinderException("%s [table: %s]", err.message, place.shown.Dotted());
	}
	for (auto &plan : result) {
		if (plan.way != OD_COLUMN_MISSING) {
			plan.source = matched[plan.source].index;
		}
	}
	return result;
}

//! The expression for the table's column COLUMN.
static unique_ptr<Expression> ArmColumn(ClientContext &context, Binder &binder, const BoundArm &arm,
                                        const od_column_plan &plan, const LogicalType &type) {
	if (plan.way == OD_COLUMN_MISSING) {
		return make_uniq<BoundConstantExpression>(Value(type));
	}
	unique_ptr<ParsedExpression> column = make_uniq<ColumnRefExpression>(arm.names[plan.source]);
	WhereBinder where(binder, context);
	where.target_type = LogicalType(LogicalTypeId::INVALID); // as it is
	auto result = where.Bind(column);
	return plan.way == OD_COLUMN_CAST ? BoundCastExpression::AddCastToType(context, std::move(result), type)
	                                  : std::move(result);
}

//! By the columns of ARM, which is all of the table: the table's column that comes of it as it is, or nothing.
static vector<string> KeptNames(const BranchesBindData &place, const BoundArm &arm,
                                const vector<od_column_plan> &columns) {
	vector<string> result(arm.names.size());
	for (idx_t i = 0; i < columns.size(); i++) {
		if (columns[i].way == OD_COLUMN_AS_IT_IS) {
			result[columns[i].source] = place.Columns()[i].name;
		}
	}
	return result;
}

//! Branch ORDINAL: its rows, those that the filter leaves, and of them the columns that GET has.
static unique_ptr<LogicalOperator> PlanArm(ClientContext &context, Binder &parent, LogicalGet &get, idx_t ordinal,
                                           idx_t projection_index) {
	auto &place = get.bind_data->Cast<BranchesBindData>();
	auto binder = Binder::CreateBinder(context, &parent);
	auto arm = place.BindArm(context, *binder, ordinal);
	auto columns = PlanColumns(place, arm, place.Count() == 1);
	if (place.Count() == 1) {
		place.OnlyArmBound(arm, KeptNames(place, arm, columns));
	}
	auto plan = std::move(arm.plan);
	string text;
	if (place.Filter(ordinal, text)) {
		auto filter = make_uniq<LogicalFilter>(BindBranchFilter(context, *binder, text, place.shown));
		filter->AddChild(std::move(plan));
		plan = std::move(filter);
	}
	vector<unique_ptr<Expression>> expressions;
	auto ids = get.GetColumnIds();
	if (ids.empty()) {
		ids.emplace_back(0);
	}
	for (auto &id : ids) {
		auto index = place.ColumnIndex(id.GetPrimaryIndex());
		auto &column = place.Columns()[index];
		expressions.push_back(ArmColumn(context, *binder, arm, columns[index], column.type));
		expressions.back()->SetAlias(column.name);
	}
	auto projection = make_uniq<LogicalProjection>(projection_index, std::move(expressions));
	projection->AddChild(std::move(plan));
	return std::move(projection);
}

//! The plan of what GET stands for, with the column bindings that GET has.
static unique_ptr<LogicalOperator> PlanPlace(ClientContext &context, Binder &binder, LogicalGet &get) {
	auto &place = get.bind_data->Cast<BranchesBindData>();
	LoadExtensions(context, place);
	if (place.Count() == 1) {
		return PlanArm(context, binder, get, 0, get.table_index);
	}
	vector<unique_ptr<LogicalOperator>> arms;
	for (idx_t i = 0; i < place.Count(); i++) {
		arms.push_back(PlanArm(context, binder, get, i, binder.GenerateTableIndex()));
	}
	auto columns = MaxValue<idx_t>(get.GetColumnIds().size(), 1);
	LogEvent(DatabaseInstance::GetDatabase(context), &context, "vgi.multi_scan_rewriter.fired",
	         {{"branches", to_string(arms.size())}, {"schema", place.table.schema.name}});
	return make_uniq<LogicalSetOperation>(get.table_index, columns, std::move(arms), LogicalOperatorType::LOGICAL_UNION,
	                                      true);
}

void PlanBranches(ClientContext &context, Binder &binder, unique_ptr<LogicalOperator> &plan) {
	for (auto &child : plan->children) {
		PlanBranches(context, binder, child);
	}
	if (IsBranchesScan(*plan)) {
		plan = PlanPlace(context, binder, plan->Cast<LogicalGet>());
	}
}

} // namespace openduck
