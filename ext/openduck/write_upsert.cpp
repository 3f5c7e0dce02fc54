#include "openduck/write_upsert.hpp"

#include "openduck/catalog.hpp"
#include "openduck/forward_classify.hpp"
#include "openduck/forward_rewrite.hpp"
#include "openduck/forward_sql.hpp"

#include "duckdb/parser/parsed_expression_iterator.hpp"
#include "duckdb/planner/operator/logical_merge_into.hpp"

namespace openduck {

LogicalUpsert::LogicalUpsert(LogicalInsert &insert, ConflictClause conflict_p)
    : LogicalInsert(insert.table, insert.table_index), conflict(std::move(conflict_p)) {
	column_index_map = std::move(insert.column_index_map);
	expected_types = std::move(insert.expected_types);
	return_chunk = insert.return_chunk;
	bound_defaults = std::move(insert.bound_defaults);
	bound_constraints = std::move(insert.bound_constraints);
	children = std::move(insert.children);
}

//===--------------------------------------------------------------------===//
// The clause
//===--------------------------------------------------------------------===//
bool LooksLikeUpsert(const LogicalOperator &write) {
	if (write.type != LogicalOperatorType::LOGICAL_MERGE_INTO) {
		return false;
	}
	auto &merge = write.Cast<LogicalMergeInto>();
	if (!OpenDuckCatalog::Is(merge.table.catalog)) {
		return false;
	}
	bool inserts = false;
	for (auto &entry : merge.actions) {
		auto &first = *entry.second[0];
		auto insert = entry.first == MergeActionCondition::WHEN_NOT_MATCHED_BY_TARGET &&
		              first.action_type == MergeActionType::MERGE_INSERT && !first.condition;
		auto update =
		    entry.first == MergeActionCondition::WHEN_MATCHED && first.action_type == MergeActionType::MERGE_UPDATE;
		if (entry.second.size() != 1 || (!insert && !update)) {
			return false;
		}
		inserts |= insert;
	}
	return inserts;
}

//! The clause takes values as they are.
static bool Computes(const OnConflictInfo &info) {
	if (!info.set_info) {
		return false;
	}
	bool result = info.set_info->condition != nullptr;
	for (auto &expr : info.set_info->expressions) {
		auto kind = expr->GetExpressionClass();
		result |= kind != ExpressionClass::COLUMN_REF && kind != ExpressionClass::CONSTANT;
	}
	return result;
}

//! "$2" alone would not be the server's second parameter: all get names, which PARAMETERS are found by then.
static void NameParameters(ParsedExpression &expr, const forward_parameters_t &parameters,
                           forward_parameters_t &named) {
	if (expr.GetExpressionClass() == ExpressionClass::PARAMETER) {
		auto &name = expr.Cast<ParameterExpression>().identifier;
		auto data = parameters.at(name);
		name = "of_" + name;
		named[name] = std::move(data);
	}
	ParsedExpressionIterator::EnumerateChildren(
	    expr, [&](unique_ptr<ParsedExpression> &child) { NameParameters(*child, parameters, named); });
}

//! Throws NotForwardable if the clause needs this side.
static ConflictClause WriteClause(ClientContext &context, Binder &binder, const InsertStatement &statement) {
	// The statement without its rows.
	auto copy = statement.Copy();
	auto &insert = copy->Cast<InsertStatement>();
	insert.select_statement.reset();
	insert.cte_map = CommonTableExpressionMap();
	insert.returning_list.clear();
	ForwardRewriter rewriter(context);
	rewriter.Rewrite(insert);
	ConflictClause result;
	result.replace = insert.on_conflict_info->action_type == OnConflictAction::REPLACE;
	if (insert.table_ref) {
		result.alias = insert.table_ref->alias;
	}
	forward_parameters_t parameters;
	for (auto &name : rewriter.Parameters()) {
		parameters[name] = nullptr;
	}
	TakeParameters(binder, parameters);
	if (insert.on_conflict_info->set_info) {
		auto &set = *insert.on_conflict_info->set_info;
		for (auto &expr : set.expressions) {
			NameParameters(*expr, parameters, result.parameters);
		}
		if (set.condition) {
			NameParameters(*set.condition, parameters, result.parameters);
		}
	}
	if (!result.replace) {
		result.sql = OnConflictToSql(*insert.on_conflict_info);
	}
	if (rewriter.HoldsValues()) {
		binder.GetStatementProperties().always_require_rebind = true;
	}
	return result;
}

//===--------------------------------------------------------------------===//
// The plan
//===--------------------------------------------------------------------===//
//! Where PLAN has its INSERT.
static unique_ptr<LogicalOperator> &InsertOf(unique_ptr<LogicalOperator> &plan) {
	reference<unique_ptr<LogicalOperator>> op(plan);
	while (op.get()->type != LogicalOperatorType::LOGICAL_INSERT) {
		if (op.get()->children.empty()) {
			throw NotForwardable("its plan is not known here");
		}
		op = op.get()->children.back();
	}
	return op.get();
}

static unique_ptr<LogicalOperator> BindUpsert(ClientContext &context, Binder &binder, const InsertStatement &statement,
                                              LogicalOperator &merge) {
	auto clause = WriteClause(context, binder, statement);
	auto plain = statement.Copy();
	plain->Cast<InsertStatement>().on_conflict_info.reset();
	auto own = Binder::CreateBinder(context, &binder);
	auto bound = own->Bind(*plain);
	merge.ResolveOperatorTypes();
	if (bound.types != merge.types) {
		throw NotForwardable("it returns other columns");
	}
	auto &place = InsertOf(bound.plan);
	place = make_uniq<LogicalUpsert>(place->Cast<LogicalInsert>(), std::move(clause));
	return std::move(bound.plan);
}

unique_ptr<LogicalOperator> PlanUpsert(ClientContext &context, Binder &binder, const InsertStatement &statement,
                                       LogicalOperator &merge) {
	if (Computes(*statement.on_conflict_info) && !MeansTheSame(context, merge)) {
		return nullptr;
	}
	auto &properties = binder.GetStatementProperties();
	auto reads = std::move(properties.read_databases);
	properties.read_databases.clear();
	try {
		return BindUpsert(context, binder, statement, merge);
	} catch (InterruptException &) {
		throw;
	} catch (std::exception &) {
		// Something that only the MERGE knows (RETURNING merge_action) or that only this side has.
		properties.read_databases = std::move(reads);
		return nullptr;
	}
}

} // namespace openduck
