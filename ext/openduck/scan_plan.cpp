//===----------------------------------------------------------------------===//
// openduck/scan_plan.cpp: what a scan asks the server for
//===----------------------------------------------------------------------===//
#include "openduck/pushdown_function.hpp"
#include "openduck/scan.hpp"

#include "duckdb/parser/keyword_helper.hpp"
#include "duckdb/planner/expression/bound_conjunction_expression.hpp"
#include "duckdb/planner/expression/bound_reference_expression.hpp"

namespace openduck {

unique_ptr<FunctionData> RemoteScanBindData::Copy() const {
	auto result = make_uniq<RemoteScanBindData>();
	result->source = source;
	result->subquery = subquery;
	result->filters = filters;
	result->limit = limit;
	result->filters_pushed = filters_pushed;
	result->dynamic_filters = dynamic_filters;
	result->awaits_bound = awaits_bound;
	result->selectivity = selectivity;
	result->sent = sent;
	result->key_filters = key_filters;
	result->planned_sql = planned_sql;
	result->expected_rows = expected_rows;
	return std::move(result);
}

bool RemoteScanBindData::Equals(const FunctionData &other_p) const {
	auto &other = other_p.Cast<RemoteScanBindData>();
	if (source.remote != other.source.remote || source.relation != other.source.relation ||
	    source.query != other.source.query || filters != other.filters || limit.IsValid() != other.limit.IsValid()) {
		return false;
	}
	// A text may be volatile or change something, and rows of this side are one plan's: two such scans are not one.
	if (!Wrappable() || !key_filters.empty() || !other.key_filters.empty() || !sent.empty() || !other.sent.empty()) {
		return this == &other;
	}
	return !limit.IsValid() || limit.GetIndex() == other.limit.GetIndex();
}

string ScanColumnSql(const RemoteScanBindData &bind, column_t id) {
	if (id == COLUMN_IDENTIFIER_ROW_ID) {
		return "rowid";
	}
	return KeywordHelper::WriteQuoted(bind.source.columns[id].name, '"');
}

LogicalType ScanColumnType(const RemoteScanBindData &bind, column_t id) {
	if (id == COLUMN_IDENTIFIER_ROW_ID) {
		return LogicalType::ROW_TYPE;
	}
	return bind.source.columns[id].type;
}

static string ScanColumnName(const RemoteScanBindData &bind, column_t id) {
	return id == COLUMN_IDENTIFIER_ROW_ID ? "rowid" : bind.source.columns[id].name;
}

//! What stands behind FROM.
static string FromItem(const RemoteScanBindData &bind) {
	if (!bind.source.relation.empty()) {
		return bind.source.relation;
	}
	string names;
	for (auto &column : bind.source.columns) {
		names += (names.empty() ? "" : ", ") + KeywordHelper::WriteQuoted(column.name, '"');
	}
	// The text may end with a comment, which a line feed ends.
	auto end = bind.subquery.find("--") == string::npos ? ")" : "\n)";
	return "(" + bind.subquery + end + " AS q(" + names + ")";
}

static string FromWhere(const RemoteScanBindData &bind, const vector<string> &filters) {
	return " FROM " + FromItem(bind) + (filters.empty() ? "" : " WHERE " + StringUtil::Join(filters, " AND "));
}

static string BuildSql(const RemoteScanBindData &bind, const RemoteScanPlan &plan, const vector<string> &columns,
                       const vector<string> &filters) {
	auto from = FromWhere(bind, filters);
	string limit = bind.limit.IsValid() ? " LIMIT " + to_string(bind.limit.GetIndex()) : string();
	if (!plan.count_only) {
		return "SELECT " + StringUtil::Join(columns, ", ") + from + limit;
	}
	if (limit.empty()) {
		return "SELECT " + SystemCallSql("count", {"*"}) + from;
	}
	return "SELECT " + SystemCallSql("count", {"*"}) + " FROM (SELECT 1" + from + limit + ")";
}

static bool HasContent(column_t id) {
	return id == COLUMN_IDENTIFIER_ROW_ID || !IsVirtualColumn(id);
}

//! Adds the stream's column for ID, if it is not there yet.
static idx_t AddColumn(const RemoteScanBindData &bind, RemoteScanPlan &plan, vector<column_t> &ids, column_t id) {
	for (idx_t i = 0; i < ids.size(); i++) {
		if (ids[i] == id) {
			return i;
		}
	}
	ids.push_back(id);
	plan.names.push_back(ScanColumnName(bind, id));
	plan.types.push_back(ScanColumnType(bind, id));
	return ids.size() - 1;
}

//! A filter that only the client can apply, as a condition on the stream's columns.
static void AddLocalFilter(const RemoteScanBindData &bind, RemoteScanPlan &plan, vector<column_t> &ids, column_t id,
                           const TableFilter &filter) {
	auto column = AddColumn(bind, plan, ids, id);
	BoundReferenceExpression reference(plan.types[column], column);
	auto condition = filter.ToExpression(reference);
	if (!plan.local_filter) {
		plan.local_filter = std::move(condition);
		return;
	}
	plan.local_filter = make_uniq<BoundConjunctionExpression>(ExpressionType::CONJUNCTION_AND,
	                                                          std::move(plan.local_filter), std::move(condition));
}

RemoteScanPlan PlanRemoteScan(const RemoteScanBindData &bind, const vector<ColumnIndex> &column_ids,
                              const vector<idx_t> &projection_ids, optional_ptr<const TableFilterSet> filters,
                              bool optional_filters, const vector<string> &more) {
	RemoteScanPlan plan;
	vector<column_t> ids;
	auto output_count = projection_ids.empty() ? column_ids.size() : projection_ids.size();
	auto verbatim = !bind.Wrappable();
	if (verbatim) {
		for (idx_t i = 0; i < bind.source.columns.size(); i++) {
			AddColumn(bind, plan, ids, i);
		}
	}
	for (idx_t i = 0; i < output_count; i++) {
		auto id = column_ids[projection_ids.empty() ? i : projection_ids[i]].GetPrimaryIndex();
		plan.outputs.push_back(HasContent(id) ? optional_idx(AddColumn(bind, plan, ids, id)) : optional_idx());
	}
	auto conditions = bind.filters;
	conditions.insert(conditions.end(), more.begin(), more.end());
	if (filters) {
		for (auto &entry : filters->filters) {
			auto id = column_ids[entry.first].GetPrimaryIndex();
			string sql;
			auto written = FilterSql::IMPOSSIBLE;
			auto local = verbatim || !bind.filters_pushed;
			if (HasContent(id)) {
				written = TableFilterToSql(*entry.second, ScanColumnSql(bind, id), ScanColumnType(bind, id),
				                           optional_filters && !local, sql);
			}
			if (written == FilterSql::WRITTEN && !local) {
				conditions.push_back(std::move(sql));
			} else if (written != FilterSql::NOT_NEEDED) {
				AddLocalFilter(bind, plan, ids, id, *entry.second);
			}
		}
	}
	if (verbatim) {
		plan.sql = bind.source.query;
		return plan;
	}
	plan.count_only = ids.empty();
	if (plan.count_only) {
		plan.names = {"count"};
		plan.types = {LogicalType::BIGINT};
	}
	vector<string> columns;
	for (auto id : ids) {
		columns.push_back(ScanColumnSql(bind, id));
	}
	// Nothing is pushed: the text goes out as it came.
	auto plain = !bind.source.query.empty() && conditions.empty() && !bind.limit.IsValid() && !plan.count_only &&
	             ids.size() == bind.source.columns.size();
	for (idx_t i = 0; plain && i < ids.size(); i++) {
		plain = ids[i] == i;
	}
	plan.sql = plain ? bind.source.query : BuildSql(bind, plan, columns, conditions);
	return plan;
}

string ScanFromSql(const RemoteScanBindData &bind, const TableFilterSet &filters, vector<string> &conditions) {
	conditions = bind.filters;
	for (auto &entry : filters.filters) {
		string sql;
		auto written = !HasContent(entry.first) ? FilterSql::IMPOSSIBLE
		                                        : TableFilterToSql(*entry.second, ScanColumnSql(bind, entry.first),
		                                                           ScanColumnType(bind, entry.first), false, sql);
		if (written == FilterSql::IMPOSSIBLE) {
			return string();
		}
		if (written == FilterSql::WRITTEN) {
			conditions.push_back(std::move(sql));
		}
	}
	return FromItem(bind);
}

bool CanPushAll(const RemoteScanBindData &bind, const TableFilterSet &filters) {
	for (auto &entry : filters.filters) {
		string sql;
		if (!HasContent(entry.first) || !bind.Wrappable() ||
		    TableFilterToSql(*entry.second, ScanColumnSql(bind, entry.first), ScanColumnType(bind, entry.first), false,
		                     sql) == FilterSql::IMPOSSIBLE) {
			return false;
		}
	}
	return true;
}

//===--------------------------------------------------------------------===//
// Sizes
//===--------------------------------------------------------------------===//
idx_t ValueBytes(const LogicalType &type) {
	static constexpr idx_t TEXT_BYTES = 16;
	auto physical = type.InternalType();
	return physical == PhysicalType::VARCHAR || !TypeIsConstantSize(physical) ? TEXT_BYTES : GetTypeIdSize(physical);
}

idx_t ScanBytes(ClientContext &context, LogicalGet &get) {
	if (!IsRemoteScan(get.function) || !get.bind_data) {
		return 0;
	}
	auto &bind = get.bind_data->Cast<RemoteScanBindData>();
	idx_t width = 1;
	auto &ids = get.GetColumnIds();
	for (idx_t i = 0; i < (get.projection_ids.empty() ? ids.size() : get.projection_ids.size()); i++) {
		auto id = ids[get.projection_ids.empty() ? i : get.projection_ids[i]].GetPrimaryIndex();
		width += HasContent(id) ? ValueBytes(ScanColumnType(bind, id)) : 0;
	}
	return get.EstimateCardinality(context) * width;
}

} // namespace openduck
