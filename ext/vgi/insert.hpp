//===----------------------------------------------------------------------===//
// vgi/insert.hpp: INSERT into a table of a VGI catalog
//===----------------------------------------------------------------------===//
#pragma once

#include "vgi/table.hpp"

#include "duckdb/execution/physical_plan_generator.hpp"
#include "duckdb/planner/operator/logical_insert.hpp"

namespace vgi {

//! The rows of PLAN go to the worker, in their order, which says how many it took.
PhysicalOperator &PlanWorkerInsert(ClientContext &context, PhysicalPlanGenerator &planner, LogicalInsert &op,
                                   PhysicalOperator &plan);

} // namespace vgi
