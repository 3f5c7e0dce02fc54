#include "vgi/branches.hpp"

#include "duckdb/planner/expression/bound_columnref_expression.hpp"
#include "duckdb/planner/expression/bound_constant_expression.hpp"
#include "duckdb/planner/expression/bound_function_expression.hpp"
#include "duckdb/planner/expression_iterator.hpp"
#include "duckdb/planner/operator/logical_aggregate.hpp"
#include "duckdb/planner/operator/logical_cteref.hpp"
#include "duckdb/planner/operator/logical_materialized_cte.hpp"
#include "duckdb/planner/operator/logical_projection.hpp"

namespace vgi {

namespace {

const vector<vector<string>> &RequiredOf(const LogicalGet &get) {
	return get.bind_data->Cast<VgiBranchesBindData>().Table().RequiredFilters();
}

//! Which columns of tables the plan's conditions are about. A column is followed down through projections, groups, set
//! operations and CTEs to the scan that it comes from.
class ConditionFinder {
public:
	void Visit(LogicalOperator &op);
	void Check();

private:
	using Bindings = vector<ColumnBinding>;

	void Note(const Expression &expression, const string &part);
	void NoteBinding(const ColumnBinding &binding, const string &part, idx_t depth);
	void Remember(LogicalOperator &op);

	//! A plan is not that deep.
	static constexpr idx_t MAX_DEPTH = 1000;

	unordered_map<idx_t, LogicalGet *> scans;
	bool has_requirements = false;
	//! By table index: what its columns are made of.
	unordered_map<idx_t, vector<const Expression *>> made;
	unordered_map<idx_t, vector<Bindings>> same;
	unordered_map<idx_t, Bindings> ctes;
	vector<const Expression *> conditions;
	//! By table index: the columns that conditions are about, in lower case.
	unordered_map<idx_t, unordered_set<string>> filtered;
};

void ConditionFinder::Remember(LogicalOperator &op) {
	switch (op.type) {
	case LogicalOperatorType::LOGICAL_GET:
		if (openduck::IsBranchesScan(op)) {
			auto &get = op.Cast<LogicalGet>();
			scans[get.table_index] = &get;
			has_requirements |= !RequiredOf(get).empty();
		}
		break;
	case LogicalOperatorType::LOGICAL_PROJECTION: {
		auto &columns = made[op.Cast<LogicalProjection>().table_index];
		for (auto &expression : op.expressions) {
			columns.push_back(expression.get());
		}
		break;
	}
	case LogicalOperatorType::LOGICAL_AGGREGATE_AND_GROUP_BY: {
		auto &aggregate = op.Cast<LogicalAggregate>();
		for (auto &group : aggregate.groups) {
			made[aggregate.group_index].push_back(group.get());
		}
		break;
	}
	case LogicalOperatorType::LOGICAL_UNION:
	case LogicalOperatorType::LOGICAL_INTERSECT:
	case LogicalOperatorType::LOGICAL_EXCEPT:
		for (auto &child : op.children) {
			same[op.GetTableIndex()[0]].push_back(child->GetColumnBindings());
		}
		break;
	case LogicalOperatorType::LOGICAL_MATERIALIZED_CTE:
		ctes[op.Cast<LogicalMaterializedCTE>().table_index] = op.children[0]->GetColumnBindings();
		break;
	case LogicalOperatorType::LOGICAL_CTE_REF: {
		auto &reference = op.Cast<LogicalCTERef>();
		auto definition = ctes.find(reference.cte_index);
		if (definition != ctes.end()) {
			same[reference.table_index].push_back(definition->second);
		}
		break;
	}
	default:
		break;
	}
}

void ConditionFinder::Visit(LogicalOperator &op) {
	Remember(op);
	if (op.type == LogicalOperatorType::LOGICAL_FILTER) {
		for (auto &expression : op.expressions) {
			conditions.push_back(expression.get());
		}
	}
	for (auto &child : op.children) {
		Visit(*child);
	}
}

void ConditionFinder::NoteBinding(const ColumnBinding &binding, const string &part, idx_t depth) {
	if (depth > MAX_DEPTH) {
		return;
	}
	auto scan = scans.find(binding.table_index);
	if (scan != scans.end()) {
		auto &get = *scan->second;
		auto &ids = get.GetColumnIds();
		if (binding.column_index < ids.size() && !ids[binding.column_index].IsVirtualColumn()) {
			auto &name = get.names[ids[binding.column_index].GetPrimaryIndex()];
			filtered[binding.table_index].insert(StringUtil::Lower(name + part));
		}
		return;
	}
	auto columns = made.find(binding.table_index);
	if (columns != made.end() && binding.column_index < columns->second.size()) {
		Note(*columns->second[binding.column_index], part);
	}
	auto children = same.find(binding.table_index);
	if (children != same.end()) {
		for (auto &bindings : children->second) {
			if (binding.column_index < bindings.size()) {
				NoteBinding(bindings[binding.column_index], part, depth + 1);
			}
		}
	}
}

//! EXPRESSION, or the part of the struct that it is, is what a condition is about.
void ConditionFinder::Note(const Expression &expression, const string &part) {
	if (expression.GetExpressionClass() == ExpressionClass::BOUND_COLUMN_REF) {
		NoteBinding(expression.Cast<BoundColumnRefExpression>().binding, part, 0);
		return;
	}
	if (expression.GetExpressionClass() == ExpressionClass::BOUND_FUNCTION) {
		auto &function = expression.Cast<BoundFunctionExpression>();
		auto &name = function.function.name;
		if ((name == "struct_extract" || name == "array_extract") && function.children.size() == 2 &&
		    function.children[1]->GetExpressionClass() == ExpressionClass::BOUND_CONSTANT) {
			auto &key = function.children[1]->Cast<BoundConstantExpression>().value;
			Note(*function.children[0], "." + key.ToString() + part);
			return;
		}
	}
	ExpressionIterator::EnumerateChildren(expression, [&](const Expression &child) { Note(child, string()); });
}

//! Whether a condition is about PATH, or about a part of it.
bool IsFiltered(const unordered_set<string> &filtered, const string &path) {
	auto wanted = StringUtil::Lower(path);
	for (auto &column : filtered) {
		if (column == wanted || StringUtil::StartsWith(column, wanted + ".")) {
			return true;
		}
	}
	return false;
}

void ConditionFinder::Check() {
	if (!has_requirements) {
		return;
	}
	for (auto condition : conditions) {
		Note(*condition, string());
	}
	for (auto &scan : scans) {
		auto &columns = filtered[scan.first];
		for (auto &choices : RequiredOf(*scan.second)) {
			bool met = choices.empty();
			for (auto &choice : choices) {
				met = met || IsFiltered(columns, choice);
			}
			if (!met) {
				auto &table = scan.second->bind_data->Cast<VgiBranchesBindData>().Table();
				throw BinderException("VGI table \"%s\".\"%s\" is read only with a filter on \"%s\"", table.schema.name,
				                      table.name, StringUtil::Join(choices, "\" or \""));
			}
		}
	}
}

} // namespace

void CheckRequiredFilters(LogicalOperator &plan) {
	ConditionFinder finder;
	finder.Visit(plan);
	finder.Check();
}

} // namespace vgi
