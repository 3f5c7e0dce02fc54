//===----------------------------------------------------------------------===//
// openduck/forward_rewrite_query.cpp: the queries and tables of a forwarded statement
//===----------------------------------------------------------------------===//
#include "openduck/forward_rewrite.hpp"

#include "duckdb/parser/query_node/list.hpp"

namespace openduck {

bool ForwardRewriter::IsCommonTable(const string &name) const {
	for (auto &known : common_tables) {
		if (StringUtil::CIEquals(known, name)) {
			return true;
		}
	}
	return false;
}

void ForwardRewriter::CommonTables(CommonTableExpressionMap &map) {
	for (auto &entry : map.map) {
		auto &node = *entry.second->query->node;
		// In its own query the name is another table's, unless it is recursive.
		if (node.type == QueryNodeType::RECURSIVE_CTE_NODE) {
			common_tables.push_back(entry.first);
			Query(node);
		} else {
			Query(node);
			common_tables.push_back(entry.first);
		}
		Exprs(entry.second->key_targets);
	}
}

void ForwardRewriter::Query(QueryNode &node) {
	auto scope = common_tables.size();
	CommonTables(node.cte_map);
	switch (node.type) {
	case QueryNodeType::SELECT_NODE:
		Select(node.Cast<SelectNode>());
		break;
	case QueryNodeType::SET_OPERATION_NODE:
		for (auto &child : node.Cast<SetOperationNode>().children) {
			Query(*child);
		}
		break;
	case QueryNodeType::RECURSIVE_CTE_NODE: {
		auto &recursive = node.Cast<RecursiveCTENode>();
		common_tables.push_back(recursive.ctename);
		Query(*recursive.left);
		Query(*recursive.right);
		Exprs(recursive.key_targets);
		break;
	}
	default:
		throw NotForwardable("a query of a kind that is not known here");
	}
	Modifiers(node);
	common_tables.resize(scope);
}

void ForwardRewriter::Select(SelectNode &node) {
	// The tables first: what is known of their columns counts for the expressions.
	if (node.from_table) {
		Table(*node.from_table);
	}
	NamedExprs(node.select_list);
	OptionalExpr(node.where_clause);
	Exprs(node.groups.group_expressions);
	OptionalExpr(node.having);
	OptionalExpr(node.qualify);
}

void ForwardRewriter::Modifiers(QueryNode &node) {
	for (auto &modifier : node.modifiers) {
		switch (modifier->type) {
		case ResultModifierType::LIMIT_MODIFIER: {
			auto &limit = modifier->Cast<LimitModifier>();
			OptionalExpr(limit.limit);
			OptionalExpr(limit.offset);
			break;
		}
		case ResultModifierType::LIMIT_PERCENT_MODIFIER: {
			auto &limit = modifier->Cast<LimitPercentModifier>();
			OptionalExpr(limit.limit);
			OptionalExpr(limit.offset);
			break;
		}
		case ResultModifierType::ORDER_MODIFIER:
			for (auto &order : modifier->Cast<OrderModifier>().orders) {
				Expr(order.expression);
			}
			break;
		case ResultModifierType::DISTINCT_MODIFIER:
			Exprs(modifier->Cast<DistinctModifier>().distinct_on_targets);
			break;
		}
	}
}

void ForwardRewriter::Table(TableRef &ref) {
	switch (ref.type) {
	case TableReferenceType::BASE_TABLE:
		BaseTable(ref.Cast<BaseTableRef>());
		break;
	case TableReferenceType::SUBQUERY:
		Query(*ref.Cast<SubqueryRef>().subquery->node);
		break;
	case TableReferenceType::JOIN: {
		auto &join = ref.Cast<JoinRef>();
		Table(*join.left);
		Table(*join.right);
		OptionalExpr(join.condition);
		Exprs(join.duplicate_eliminated_columns);
		break;
	}
	case TableReferenceType::TABLE_FUNCTION:
		TableFunction(ref.Cast<TableFunctionRef>().function);
		break;
	case TableReferenceType::EXPRESSION_LIST:
		for (auto &row : ref.Cast<ExpressionListRef>().values) {
			Exprs(row);
		}
		break;
	case TableReferenceType::PIVOT:
		Pivot(ref.Cast<PivotRef>());
		break;
	case TableReferenceType::EMPTY_FROM:
		break;
	default:
		throw NotForwardable("a table of a kind that only this side has");
	}
}

void ForwardRewriter::BaseTable(BaseTableRef &ref) {
	if (ref.catalog_name.empty() && IsCommonTable(ref.table_name) &&
	    (ref.schema_name.empty() || StringUtil::CIEquals(ref.schema_name, "recurring"))) {
		return;
	}
	if (names.Resolve(CatalogType::TABLE_ENTRY, ref.catalog_name, ref.schema_name, ref.table_name) !=
	    RemoteNames::Place::REMOTE) {
		throw NotForwardable("\"" + ref.table_name + "\" is no table of the remote database");
	}
	if (ref.at_clause) {
		Expr(ref.at_clause->ExpressionMutable());
	}
	if (stored && !StringUtil::CIEquals(ref.schema_name, ref.catalog_name)) {
		// What is stored shall not depend on the name under which the file is served.
		ref.catalog_name = string();
	}
}

void ForwardRewriter::Pivot(PivotRef &ref) {
	Table(*ref.source);
	Exprs(ref.aggregates);
	for (auto &pivot : ref.pivots) {
		if (!pivot.pivot_enum.empty()) {
			throw NotForwardable("a PIVOT over a type of this side");
		}
		Exprs(pivot.pivot_expressions);
		for (auto &entry : pivot.entries) {
			OptionalExpr(entry.expr);
		}
		if (pivot.subquery) {
			Query(*pivot.subquery);
		}
	}
}

} // namespace openduck
