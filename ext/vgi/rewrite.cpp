//===----------------------------------------------------------------------===//
// vgi/rewrite.cpp: the optimizer puts a table's branches where its scan stands
//===----------------------------------------------------------------------===//
#include "vgi/branches.hpp"
#include "vgi/event.hpp"
#include "vgi/functions.hpp"
#include "vgi/scan.hpp"

#include "duckdb/main/config.hpp"
#include "duckdb/main/extension/extension_loader.hpp"
#include "duckdb/main/extension_helper.hpp"
#include "duckdb/optimizer/optimizer.hpp"
#include "duckdb/optimizer/optimizer_extension.hpp"
#include "duckdb/parser/expression/columnref_expression.hpp"
#include "duckdb/planner/expression/bound_cast_expression.hpp"
#include "duckdb/planner/expression/bound_columnref_expression.hpp"
#include "duckdb/planner/expression/bound_constant_expression.hpp"
#include "duckdb/planner/expression_binder/where_binder.hpp"
#include "duckdb/planner/operator/logical_filter.hpp"
#include "duckdb/planner/operator/logical_limit.hpp"
#include "duckdb/planner/operator/logical_projection.hpp"
#include "duckdb/planner/operator/logical_set_operation.hpp"

extern "C" {
#include "vgi/branch.h"
}

namespace vgi {

//! A limit above it is none that a worker need know.
static constexpr idx_t MAX_LIMIT = idx_t(1) << 32;

//===--------------------------------------------------------------------===//
// The place
//===--------------------------------------------------------------------===//
BranchesBindData::BranchesBindData(VgiTableEntry &table, shared_ptr<Answer<od_vgi_branches>> branches_p)
    : table(table), branches(std::move(branches_p)) {
}

unique_ptr<FunctionData> BranchesBindData::Copy() const {
	return make_uniq<BranchesBindData>(table, branches);
}

bool BranchesBindData::Equals(const FunctionData &other) const {
	return branches == other.Cast<BranchesBindData>().branches;
}

static void RefuseToRun(ClientContext &, TableFunctionInput &input, DataChunk &) {
	auto &table = input.bind_data->Cast<BranchesBindData>().table;
	throw NotImplementedException(
	    "VGI table \"%s\".\"%s\" cannot be read without the optimizer (PRAGMA enable_optimizer)", table.schema.name,
	    table.name);
}

static unique_ptr<NodeStatistics> BranchesCardinality(ClientContext &, const FunctionData *bind) {
	auto rows = bind->Cast<BranchesBindData>().table.EstimatedRows();
	return rows.IsValid() ? make_uniq<NodeStatistics>(rows.GetIndex()) : make_uniq<NodeStatistics>();
}

static BindInfo BranchesBindInfo(const optional_ptr<FunctionData> bind) {
	return BindInfo(bind->Cast<BranchesBindData>().table);
}

TableFunction BranchesFunction(const VgiTableEntry &table) {
	TableFunction function("vgi_branches", {}, RefuseToRun);
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
static void LoadExtensions(ClientContext &context, VgiTableEntry &table, const od_vgi_texts &extensions) {
	for (auto &extension : Texts(extensions)) {
		auto name = ExtensionHelper::ApplyExtensionAlias(extension);
		auto &database = DatabaseInstance::GetDatabase(context);
		if (database.ExtensionIsLoaded(name) || ExtensionHelper::TryAutoLoadExtension(context, name)) {
			continue;
		}
		throw BinderException("VGI table \"%s\".\"%s\" needs the extension '%s', which is not loaded and could not be: "
		                      "INSTALL and LOAD it first",
		                      table.schema.name, table.name, name);
	}
}

//! A column of an arm: the name under which it is matched, and where it is.
struct MatchedColumn {
	string name;
	idx_t index;
};

//! The columns of an arm that are matched by name: all of them. Where the arm is all of the table, a function of the worker's: those that the
//! table has; or, if it has as many, but not those names, the table's names by place.
static vector<MatchedColumn> MatchedColumns(VgiTableEntry &table, const BoundArm &arm, bool only_arm) {
	auto &told = table.ToldColumns();
	case_insensitive_set_t names;
	for (auto &column : told) {
		names.insert(column.name);
	}
	bool by_function = only_arm && arm.is_worker;
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
static vector<od_column_plan> PlanColumns(VgiTableEntry &table, const BoundArm &arm, bool only_arm) {
	auto matched = MatchedColumns(table, arm, only_arm);
	vector<string> types;
	vector<od_branch_column> wanted, given;
	auto &columns = table.ToldColumns();
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
		throw BinderException("%s [table: %s.%s]", err.message, table.schema.name, table.name);
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

//! ARM is all of TABLE: what is said of the table's columns is said of its.
static void GiveEstimates(VgiTableEntry &table, const BoundArm &arm, const vector<od_column_plan> &columns) {
	if (!arm.is_worker || !table.HasEstimates()) {
		return;
	}
	vector<string> names(arm.names.size());
	for (idx_t i = 0; i < columns.size(); i++) {
		// What is cast has another order, and other numbers.
		if (columns[i].way == OD_COLUMN_AS_IT_IS) {
			names[columns[i].source] = table.ToldColumns()[i].name;
		}
	}
	ReplaceEstimates(
	    arm.plan->Cast<LogicalGet>(), [&table](ClientContext &context) { return table.Estimates(context); },
	    std::move(names));
}

//! One branch: its rows, those that the filter leaves, and of them the columns that GET has.
static unique_ptr<LogicalOperator> PlanArm(ClientContext &context, Binder &parent, LogicalGet &get,
                                           VgiTableEntry &table, const od_vgi_branch &branch, idx_t projection_index,
                                           bool only_arm) {
	auto binder = Binder::CreateBinder(context, &parent);
	auto arm = BindArm(context, *binder, table, branch);
	auto columns = PlanColumns(table, arm, only_arm);
	if (only_arm) {
		GiveEstimates(table, arm, columns);
	}
	auto plan = std::move(arm.plan);
	if (branch.filter.data) {
		auto shown = table.schema.name + "." + table.name;
		auto condition = BindBranchFilter(context, *binder, Text(branch.filter), shown);
		auto filter = make_uniq<LogicalFilter>(std::move(condition));
		filter->AddChild(std::move(plan));
		plan = std::move(filter);
	}
	vector<unique_ptr<Expression>> expressions;
	auto ids = get.GetColumnIds();
	if (ids.empty()) {
		ids.emplace_back(0);
	}
	for (auto &id : ids) {
		auto index = table.ToldIndex(id.GetPrimaryIndex());
		auto &column = table.ToldColumns()[index];
		expressions.push_back(ArmColumn(context, *binder, arm, columns[index], column.type));
		expressions.back()->SetAlias(column.name);
	}
	auto projection = make_uniq<LogicalProjection>(projection_index, std::move(expressions));
	projection->AddChild(std::move(plan));
	return std::move(projection);
}

unique_ptr<LogicalOperator> PlanBranches(ClientContext &context, Binder &binder, LogicalGet &get) {
	auto &bind = get.bind_data->Cast<BranchesBindData>();
	auto &branches = *bind.branches;
	LoadExtensions(context, bind.table, branches->required_extensions);
	if (branches->count == 1) {
		return PlanArm(context, binder, get, bind.table, branches->items[0], get.table_index, true);
	}
	vector<unique_ptr<LogicalOperator>> arms;
	for (idx_t i = 0; i < branches->count; i++) {
		arms.push_back(
		    PlanArm(context, binder, get, bind.table, branches->items[i], binder.GenerateTableIndex(), false));
	}
	auto columns = MaxValue<idx_t>(get.GetColumnIds().size(), 1);
	LogEvent(DatabaseInstance::GetDatabase(context), &context, "vgi.multi_scan_rewriter.fired",
	         {{"branches", to_string(arms.size())}, {"schema", bind.table.schema.name}});
	return make_uniq<LogicalSetOperation>(get.table_index, columns, std::move(arms), LogicalOperatorType::LOGICAL_UNION,
	                                      true);
}

static void RewritePlan(ClientContext &context, Binder &binder, unique_ptr<LogicalOperator> &op) {
	for (auto &child : op->children) {
		RewritePlan(context, binder, child);
	}
	PlanBuffered(context, op);
	if (IsBranchesScan(*op)) {
		op = PlanBranches(context, binder, op->Cast<LogicalGet>());
	}
}

static idx_t CountScans(const LogicalOperator &op) {
	idx_t result = op.type == LogicalOperatorType::LOGICAL_GET ? 1 : 0;
	for (auto &child : op.children) {
		result += CountScans(*child);
	}
	return result;
}

//! Where rows of several places meet, it counts how many each has.
static void WantEstimatesBelow(LogicalOperator &op) {
	if (op.type == LogicalOperatorType::LOGICAL_GET) {
		WantEstimates(op.Cast<LogicalGet>());
	}
	for (auto &child : op.children) {
		WantEstimatesBelow(*child);
	}
}

//! Tells the scans below OP that no more than ROWS of their rows are read.
static void SendLimits(LogicalOperator &op, optional_idx rows) {
	switch (op.type) {
	case LogicalOperatorType::LOGICAL_LIMIT: {
		auto &limit = op.Cast<LogicalLimit>();
		bool constant = limit.limit_val.Type() == LimitNodeType::CONSTANT_VALUE;
		bool offset = limit.offset_val.Type() == LimitNodeType::CONSTANT_VALUE;
		if (constant && (offset || limit.offset_val.Type() == LimitNodeType::UNSET)) {
			auto skipped = offset ? limit.offset_val.GetConstantValue() : 0;
			auto wanted = limit.limit_val.GetConstantValue();
			rows = wanted < MAX_LIMIT && skipped < MAX_LIMIT ? optional_idx(wanted + skipped) : optional_idx();
		} else {
			rows = optional_idx();
		}
		break;
	}
	case LogicalOperatorType::LOGICAL_PROJECTION:
		break;
	case LogicalOperatorType::LOGICAL_UNION:
		rows = op.Cast<LogicalSetOperation>().setop_all ? rows : optional_idx();
		break;
	case LogicalOperatorType::LOGICAL_GET:
		if (rows.IsValid()) {
			SendLimit(op.Cast<LogicalGet>(), rows.GetIndex());
		}
		rows = optional_idx();
		break;
	default:
		rows = optional_idx();
		break;
	}
	for (auto &child : op.children) {
		SendLimits(*child, rows);
	}
}

static void AfterOptimizer(OptimizerExtensionInput &, unique_ptr<LogicalOperator> &plan) {
	SendLimits(*plan, optional_idx());
}

static void Rewrite(OptimizerExtensionInput &input, unique_ptr<LogicalOperator> &plan) {
	CheckRequiredFilters(*plan);
	RewritePlan(input.context, input.optimizer.binder, plan);
	if (CountScans(*plan) > 1) {
		WantEstimatesBelow(*plan);
	}
}

void RegisterBranches(ExtensionLoader &loader) {
	auto &config = DBConfig::GetConfig(loader.GetDatabaseInstance());
	OptimizerExtension extension;
	extension.pre_optimize_function = Rewrite;
	extension.optimize_function = AfterOptimizer;
	OptimizerExtension::Register(config, std::move(extension));
	config.AddExtensionOption(MULTI_BRANCH_SETTING, "Whether VGI tables of more than one branch can be read",
	                          LogicalType::BOOLEAN, Value::BOOLEAN(true));
	RegisterBranchFunctions(loader);
	RegisterBranchCheck(loader);
}

} // namespace vgi
