//===----------------------------------------------------------------------===//
// openduck/subplan_cost.cpp: whether rows of this side go to the server's tables, or those come here
//===----------------------------------------------------------------------===//
#include "openduck/subplan.hpp"

#include "duckdb/planner/expression/list.hpp"

namespace openduck {

namespace {

//! Estimates above are not trusted: what they are wrong by travels, too.
constexpr double MAX_SENT_BYTES = 8 << 20;
//! Less is not worth another way.
constexpr double MIN_FETCHED_BYTES = 2 << 10;
//! What has to come less for rows to be sent.
constexpr double SENT_SHARE = 0.5;

class TravelCost {
public:
	explicit TravelCost(ClientContext &context) : context(context) {
	}

	double Bytes(LogicalOperator &op) {
		op.ResolveOperatorTypes();
		double width = 1;
		for (auto &type : op.types) {
			width += double(ValueBytes(type));
		}
		return Rows(op) * width;
	}

	//! What goes up if the server runs OP.
	double Sent(LogicalOperator &op) {
		if (IsOfThisSide(op)) {
			return Bytes(op);
		}
		double result = 0;
		for (auto &child : op.children) {
			result += Sent(*child);
		}
		return result;
	}

	//! What travels if OP is run here, with the keys of its joins.
	double Fetched(LogicalOperator &op) {
		if (op.type == LogicalOperatorType::LOGICAL_GET) {
			return double(ScanBytes(context, op.Cast<LogicalGet>()));
		}
		double result = 0;
		for (auto &child : op.children) {
			result += Fetched(*child);
		}
		if (op.type == LogicalOperatorType::LOGICAL_COMPARISON_JOIN &&
		    DropsUnmatched(op.Cast<LogicalJoin>().join_type)) {
			auto first = Fetched(*op.children[0]);
			auto matched = first * MinValue(1.0, Rows(op) / MaxValue(1.0, Rows(*op.children[0])));
			result = MinValue(result, result - first + matched + Rows(*op.children[1]) * JoinKeys::MIN_KEY_BYTES);
		}
		return result;
	}

private:
	double Rows(LogicalOperator &op) {
		return double(op.EstimateCardinality(context));
	}

	static bool DropsUnmatched(JoinType type) {
		return type == JoinType::INNER || type == JoinType::SEMI || type == JoinType::RIGHT ||
		       type == JoinType::RIGHT_SEMI || type == JoinType::RIGHT_ANTI;
	}

	ClientContext &context;
};

} // namespace

bool IsWorthSending(ClientContext &context, LogicalOperator &op) {
	TravelCost cost(context);
	auto sent = cost.Sent(op);
	auto fetched = cost.Fetched(op);
	return sent <= MAX_SENT_BYTES && fetched >= MIN_FETCHED_BYTES && sent + cost.Bytes(op) <= fetched * SENT_SHARE;
}

} // namespace openduck
