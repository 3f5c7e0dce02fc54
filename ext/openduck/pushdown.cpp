//===----------------------------------------------------------------------===//
// openduck/pushdown.cpp: filters and limits move from the client's plan into what the server is asked
//===----------------------------------------------------------------------===//
#include "openduck/pushdown.hpp"

#include "common/branches.hpp"

#include "duckdb/optimizer/column_binding_replacer.hpp"
#include "duckdb/optimizer/optimizer.hpp"
#include "duckdb/planner/binder.hpp"
#include "duckdb/planner/expression/list.hpp"
#include "duckdb/planner/expression_iterator.hpp"
#include "duckdb/planner/filter/conjunction_filter.hpp"
#include "duckdb/planner/filter/constant_filter.hpp"
#include "duckdb/planner/filter/dynamic_filter.hpp"
#include "duckdb/planner/filter/expression_filter.hpp"
#include "duckdb/planner/filter/in_filter.hpp"
#include "duckdb/planner/filter/optional_filter.hpp"
#include "duckdb/planner/filter/struct_filter.hpp"
#include "duckdb/planner/operator/logical_distinct.hpp"
#include "duckdb/planner/operator/logical_limit.hpp"
#include "openduck/pushdown_function.hpp"
#include "openduck/selectivity.hpp"
#include "openduck/subplan.hpp"
#include "openduck/table.hpp"
#include "openduck/table_size.hpp"

namespace openduck {

//! All conditions of a scan together; more stays local.
static constexpr idx_t MAX_FILTER_SQL = idx_t(1) << 20;
//! One that DuckDB could do without is not worth more.
static constexpr idx_t MAX_OPTIONAL_SQL = idx_t(64) << 10;

//===--------------------------------------------------------------------===//
// Table filters
//===--------------------------------------------------------------------===//
static FilterSql WriteConstant(const string &column, ExpressionType type, const Value &constant, string &sql) {
	string literal;
	if (!LiteralToSql(constant, literal)) {
		return FilterSql::IMPOSSIBLE;
	}
	sql = "(" + column + " " + ExpressionTypeToOperator(type) + " " + literal + ")";
	return FilterSql::WRITTEN;
}

static FilterSql WriteConjunction(const ConjunctionFilter &filter, bool all, const string &column,
                                  const LogicalType &type, bool use_optional, string &sql) {
	string result;
	for (auto &child : filter.child_filters) {
		string part;
		auto written = TableFilterToSql(*child, column, type, use_optional, part);
		if (written == FilterSql::IMPOSSIBLE || (written == FilterSql::NOT_NEEDED && !all)) {
			return written;
		}
		if (written == FilterSql::WRITTEN) {
			result += (result.empty() ? "" : all ? " AND " : " OR ") + part;
		}
	}
	if (result.empty()) {
		return FilterSql::NOT_NEEDED;
	}
	sql = "(" + result + ")";
	return FilterSql::WRITTEN;
}

static FilterSql WriteIn(const InFilter &filter, const string &column, string &sql) {
	string list;
	for (auto &value : filter.values) {
		string literal;
		if (value.IsNull() || !LiteralToSql(value, literal)) {
			return FilterSql::IMPOSSIBLE;
		}
		list += (list.empty() ? "" : ", ") + literal;
	}
	sql = "(" + column + " IN (" + list + "))";
	return FilterSql::WRITTEN;
}

//! What the TOP N that it is a bound of says now, if it says anything.
static FilterSql WriteBound(const DynamicFilter &filter, const string &column, const LogicalType &type, string &sql) {
	if (!filter.filter_data) {
		return FilterSql::NOT_NEEDED;
	}
	auto &data = *filter.filter_data;
	lock_guard<mutex> guard(data.lock);
	return data.initialized ? TableFilterToSql(*data.filter, column, type, true, sql) : FilterSql::NOT_NEEDED;
}

FilterSql TableFilterToSql(const TableFilter &filter, const string &column, const LogicalType &type, bool use_optional,
                           string &sql) {
	switch (filter.filter_type) {
	case TableFilterType::IS_NULL:
		sql = "(" + column + " IS NULL)";
		return FilterSql::WRITTEN;
	case TableFilterType::IS_NOT_NULL:
		sql = "(" + column + " IS NOT NULL)";
		return FilterSql::WRITTEN;
	case TableFilterType::CONSTANT_COMPARISON: {
		auto &constant = filter.Cast<ConstantFilter>();
		if (!IsComparable(type, constant.comparison_type)) {
			return FilterSql::IMPOSSIBLE;
		}
		return WriteConstant(column, constant.comparison_type, constant.constant, sql);
	}
	case TableFilterType::IN_FILTER:
		return IsComparable(type, ExpressionType::COMPARE_EQUAL) ? WriteIn(filter.Cast<InFilter>(), column, sql)
		                                                         : FilterSql::IMPOSSIBLE;
	case TableFilterType::CONJUNCTION_AND:
		return WriteConjunction(filter.Cast<ConjunctionAndFilter>(), true, column, type, use_optional, sql);
	case TableFilterType::CONJUNCTION_OR:
		return WriteConjunction(filter.Cast<ConjunctionOrFilter>(), false, column, type, use_optional, sql);
	case TableFilterType::STRUCT_EXTRACT: {
		auto &field = filter.Cast<StructFilter>();
		string name;
		if (type.id() != LogicalTypeId::STRUCT || field.child_name.empty() ||
		    !LiteralToSql(Value(field.child_name), name)) {
			return FilterSql::IMPOSSIBLE;
		}
		return TableFilterToSql(*field.child_filter, SystemCallSql("struct_extract", {column, name}),
		                        StructType::GetChildType(type, field.child_idx), use_optional, sql);
	}
	case TableFilterType::OPTIONAL_FILTER: {
		auto &child = filter.Cast<OptionalFilter>().child_filter;
		if (!use_optional || !child) {
			return FilterSql::NOT_NEEDED;
		}
		auto written = TableFilterToSql(*child, column, type, true, sql);
		return written == FilterSql::WRITTEN && sql.size() <= MAX_OPTIONAL_SQL ? written : FilterSql::NOT_NEEDED;
	}
	case TableFilterType::EXPRESSION_FILTER: {
		column_writer_t writer = [&](const Expression &, string &out) {
			out = column;
			return true;
		};
		auto &expression = *filter.Cast<ExpressionFilter>().expr;
		return ExpressionToSql(expression, writer, sql) ? FilterSql::WRITTEN : FilterSql::IMPOSSIBLE;
	}
	case TableFilterType::DYNAMIC_FILTER:
		return use_optional ? WriteBound(filter.Cast<DynamicFilter>(), column, type, sql) : FilterSql::NOT_NEEDED;
	case TableFilterType::BLOOM_FILTER:
		// A hint of a join, which checks each row again.
		return FilterSql::NOT_NEEDED;
	default:
		return FilterSql::IMPOSSIBLE;
	}
}

//===--------------------------------------------------------------------===//
// Expressions above the scan
//===--------------------------------------------------------------------===//
column_writer_t ScanColumnWriter(LogicalGet &get, const RemoteScanBindData &bind) {
	return [&get, &bind](const Expression &expr, string &sql) {
		if (expr.GetExpressionClass() != ExpressionClass::BOUND_COLUMN_REF) {
			return false;
		}
		auto &ref = expr.Cast<BoundColumnRefExpression>();
		auto &ids = get.GetColumnIds();
		if (ref.depth > 0 || ref.binding.table_index != get.table_index || ref.binding.column_index >= ids.size()) {
			return false;
		}
		auto &index = ids[ref.binding.column_index];
		if (index.IsPushdownExtract() || !index.HasPrimaryIndex()) {
			return false;
		}
		auto id = index.GetPrimaryIndex();
		if ((IsVirtualColumn(id) && id != COLUMN_IDENTIFIER_ROW_ID) || ScanColumnType(bind, id) != ref.return_type) {
			return false;
		}
		sql = ScanColumnSql(bind, id);
		return true;
	};
}

//! A filter that leaves out nothing. DuckDB's optimizers see that the scan selects, which its SQL does not tell them.
static unique_ptr<TableFilter> SelectionHint() {
	return make_uniq<OptionalFilter>(
	    make_uniq<ExpressionFilter>(make_uniq<BoundConstantExpression>(Value::BOOLEAN(true))));
}

static bool IsSelectionHint(const TableFilter &filter) {
	if (filter.filter_type != TableFilterType::OPTIONAL_FILTER) {
		return false;
	}
	auto &child = filter.Cast<OptionalFilter>().child_filter;
	return child && child->filter_type == TableFilterType::EXPRESSION_FILTER &&
	       child->Cast<ExpressionFilter>().expr->GetExpressionType() == ExpressionType::VALUE_CONSTANT;
}

//! The scan has taken over FILTER, and leaves nothing for DuckDB to see.
static void HintSelection(LogicalGet &get, const Expression &filter) {
	if (!get.table_filters.filters.empty()) {
		return;
	}
	auto &ids = get.GetColumnIds();
	ExpressionIterator::VisitExpression<BoundColumnRefExpression>(filter, [&](const BoundColumnRefExpression &ref) {
		auto &index = ids[ref.binding.column_index];
		if (get.table_filters.filters.empty() && index.HasPrimaryIndex() && !index.IsVirtualColumn()) {
			get.table_filters.PushFilter(ColumnIndex(index.GetPrimaryIndex()), SelectionHint());
		}
	});
}

static void DropSelectionHint(LogicalGet &get) {
	auto &filters = get.table_filters.filters;
	for (auto entry = filters.begin(); entry != filters.end();) {
		entry = IsSelectionHint(*entry->second) ? filters.erase(entry) : std::next(entry);
	}
}

void PushdownFilters(ClientContext &context, LogicalGet &get, FunctionData *bind_data,
                     vector<unique_ptr<Expression>> &filters) {
	auto &bind = bind_data->Cast<RemoteScanBindData>();
	bind.filters_pushed = CurrentPushdown(context) != PushdownLevel::OFF;
	// What comes after a limit stays there.
	if (!bind.Wrappable() || bind.limit.IsValid() || !bind.filters_pushed) {
		return;
	}
	auto writer = ScanColumnWriter(get, bind);
	auto zero_divisor = CurrentZeroDivisor(context);
	idx_t total = 0;
	for (auto &filter : bind.filters) {
		total += filter.size();
	}
	vector<unique_ptr<Expression>> rest;
	unique_ptr<Expression> pushed;
	Selectivity selectivity(bind, get);
	for (auto &filter : filters) {
		string sql;
		if (filter->IsVolatile() || filter->HasParameter() || filter->HasSubquery() ||
		    !ExpressionToSql(*filter, writer, sql, zero_divisor) || total + sql.size() > MAX_FILTER_SQL) {
			rest.push_back(std::move(filter));
			continue;
		}
		total += sql.size();
		bind.filters.push_back(std::move(sql));
		selectivity.Add(*filter);
		pushed = std::move(filter);
	}
	bind.selectivity = MinValue(bind.selectivity, selectivity.Part());
	filters = std::move(rest);
	if (pushed && filters.empty()) {
		HintSelection(get, *pushed);
	}
}

//===--------------------------------------------------------------------===//
// Parts of a plan that the server runs
//===--------------------------------------------------------------------===//
unique_ptr<LogicalOperator> ReplaceByScan(PlanPart part, RemoteScanSource source, string sql,
                                          vector<RemoteColumn> columns, idx_t rows) {
	auto before = part.place->GetColumnBindings();
	auto table = part.binder.GenerateTableIndex();
	vector<LogicalType> types;
	vector<string> names;
	for (auto &column : columns) {
		types.push_back(column.type);
		names.push_back(column.name);
	}
	source.relation.clear();
	source.query = sql;
	source.columns = std::move(columns);
	source.estimated_rows = rows;
	source.entry = nullptr;
	auto bind = unique_ptr_cast<FunctionData, RemoteScanBindData>(RemoteScanBind(std::move(source)));
	bind->subquery = std::move(sql);
	auto get = make_uniq<LogicalGet>(table, RemoteScanFunction(), std::move(bind), types, names);
	for (idx_t i = 0; i < types.size(); i++) {
		get->AddColumnId(i);
	}
	unique_ptr<LogicalOperator> result = std::move(get);
	result->SetEstimatedCardinality(rows);
	result->ResolveOperatorTypes();
	std::swap(part.place, result);
	ColumnBindingReplacer replacer;
	for (idx_t i = 0; i < before.size(); i++) {
		replacer.replacement_bindings.emplace_back(before[i], ColumnBinding(table, i));
	}
	replacer.VisitOperator(*part.root);
	return result;
}

//===--------------------------------------------------------------------===//
// After DuckDB's own optimizers: limits, and what EXPLAIN shows
//===--------------------------------------------------------------------===//
static void PushLimit(LogicalLimit &limit) {
	if (limit.limit_val.Type() != LimitNodeType::CONSTANT_VALUE ||
	    (limit.offset_val.Type() != LimitNodeType::CONSTANT_VALUE && limit.offset_val.Type() != LimitNodeType::UNSET)) {
		return;
	}
	auto rows = limit.limit_val.GetConstantValue();
	auto offset = limit.offset_val.Type() == LimitNodeType::UNSET ? 0 : limit.offset_val.GetConstantValue();
	if (rows > NumericLimits<int64_t>::Maximum() - offset) {
		return;
	}
	reference<LogicalOperator> child = *limit.children[0];
	while (child.get().type == LogicalOperatorType::LOGICAL_PROJECTION) {
		child = *child.get().children[0];
	}
	if (child.get().type != LogicalOperatorType::LOGICAL_GET) {
		return;
	}
	auto &get = child.get().Cast<LogicalGet>();
	if (!IsRemoteScan(get.function) || !get.bind_data || get.extra_info.sample_options) {
		return;
	}
	auto &bind = get.bind_data->Cast<RemoteScanBindData>();
	if (!bind.Wrappable() || bind.limit.IsValid() || !CanPushAll(bind, get.table_filters)) {
		return;
	}
	bind.limit = rows + offset;
}

//! BELOW_LIMIT: a LIMIT lies above, and a join above that. The join's run-time filters are not known to be right here.
static void VisitPlan(ClientContext &context, LogicalOperator &op, PushdownLevel level, bool in_join,
                      bool below_limit) {
	switch (op.type) {
	case LogicalOperatorType::LOGICAL_LIMIT:
		if (level != PushdownLevel::OFF) {
			PushLimit(op.Cast<LogicalLimit>());
		}
		below_limit |= in_join;
		break;
	case LogicalOperatorType::LOGICAL_TOP_N:
		below_limit |= in_join;
		break;
	case LogicalOperatorType::LOGICAL_DISTINCT:
		below_limit |= in_join && op.Cast<LogicalDistinct>().distinct_type == DistinctType::DISTINCT_ON;
		break;
	case LogicalOperatorType::LOGICAL_COMPARISON_JOIN:
	case LogicalOperatorType::LOGICAL_DELIM_JOIN:
		in_join = true;
		break;
	case LogicalOperatorType::LOGICAL_GET: {
		auto &get = op.Cast<LogicalGet>();
		if (!IsRemoteScan(get.function) || !get.bind_data) {
			break;
		}
		auto &bind = get.bind_data->Cast<RemoteScanBindData>();
		DropSelectionHint(get);
		bind.filters_pushed = level != PushdownLevel::OFF;
		bind.awaits_bound &= bind.filters_pushed && !bind.limit.IsValid();
		bind.dynamic_filters = bind.filters_pushed && (!below_limit || bind.awaits_bound) && !bind.limit.IsValid();
		if (below_limit) {
			// DuckDB 1.5.5 would leave out rows here before the LIMIT counts them.
			get.dynamic_filters.reset();
		}
		TableFilterSet by_position;
		auto &ids = get.GetColumnIds();
		for (auto &entry : get.table_filters.filters) {
			for (idx_t i = 0; i < ids.size(); i++) {
				if (ids[i].GetPrimaryIndex() == entry.first) {
					by_position.filters[i] = entry.second->Copy();
				}
			}
		}
		bind.expected_rows = get.EstimateCardinality(context);
		auto keys = JoinKeyConditions::Planned(bind.key_filters, bind.sent.size());
		bind.planned_sql = PlanRemoteScan(bind, ids, get.projection_ids, by_position, false, keys.conditions).sql;
		break;
	}
	default:
		break;
	}
	for (auto &child : op.children) {
		VisitPlan(context, *child, level, in_join, below_limit);
	}
}

static void OptimizeRemoteScans(OptimizerExtensionInput &input, unique_ptr<LogicalOperator> &plan) {
	auto level = CurrentPushdown(input.context);
	if (level == PushdownLevel::FULL) {
		PushSubplans(input, plan, false);
		PlanJoinKeys(input.context, *plan);
		PushSubplans(input, plan, true);
	}
	if (level != PushdownLevel::OFF) {
		PlanBounds(input.context, input.optimizer.binder, *plan);
	}
	VisitPlan(input.context, *plan, level, false, false);
}

static void PrepareRemoteScans(OptimizerExtensionInput &input, unique_ptr<LogicalOperator> &plan) {
	PlanBranches(input.context, input.optimizer.binder, plan);
	if (CurrentPushdown(input.context) == PushdownLevel::FULL && PushWholePlan(input, plan)) {
		return;
	}
	RefreshTableSizes(input.context, *plan);
}

void RegisterOptimizer(ExtensionLoader &loader) {
	OptimizerExtension extension;
	extension.pre_optimize_function = PrepareRemoteScans;
	extension.optimize_function = OptimizeRemoteScans;
	OptimizerExtension::Register(DBConfig::GetConfig(loader.GetDatabaseInstance()), std::move(extension));
}

} // namespace openduck
