//===----------------------------------------------------------------------===//
// vgi/rewrite.cpp: what the optimizer does for VGI tables
//===----------------------------------------------------------------------===//
#include "vgi/branches.hpp"
#include "vgi/functions.hpp"
#include "vgi/scan.hpp"

#include "duckdb/main/config.hpp"
#include "duckdb/main/extension/extension_loader.hpp"
#include "duckdb/optimizer/optimizer.hpp"
#include "duckdb/optimizer/optimizer_extension.hpp"
#include "duckdb/planner/operator/logical_limit.hpp"
#include "duckdb/planner/operator/logical_set_operation.hpp"

namespace vgi {

//! A limit above it is none that a worker need know.
static constexpr idx_t MAX_LIMIT = idx_t(1) << 32;

static void PlanFunctionsBelow(ClientContext &context, Binder &binder, unique_ptr<LogicalOperator> &op) {
	for (auto &child : op->children) {
		PlanFunctionsBelow(context, binder, child);
	}
	if (op->type == LogicalOperatorType::LOGICAL_GET) {
		RefuseCorrelated(op->Cast<LogicalGet>());
		PlanBuffered(context, op);
	}
	if (op->type == LogicalOperatorType::LOGICAL_GET) {
		PlanRowFunction(binder, op);
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
	PlanFunctionsBelow(input.context, input.optimizer.binder, plan);
	openduck::PlanBranches(input.context, input.optimizer.binder, plan);
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
