//===----------------------------------------------------------------------===//
// openduck/subplan.hpp: parts of an optimized plan written back to SQL
//===----------------------------------------------------------------------===//
#pragma once

#include "openduck/scan.hpp"
#include "openduck/sent_rows.hpp"

#include "duckdb/planner/expression/bound_case_expression.hpp"
#include "duckdb/planner/expression/bound_window_expression.hpp"
#include "duckdb/planner/operator/list.hpp"

namespace openduck {

//! A column that a part of a plan gives.
struct SubplanColumn {
	ColumnBinding binding;
	LogicalType type;
	//! Over what stands behind FROM.
	string sql;
	//! It is the column of a FROM item, and nothing computed.
	bool plain = false;
	//! DuckDB has made it shorter to group or to order by it; SQL gives it as it was before, which is as good for that, but TYPE is the
	//! short one's.
	bool compressed = false;
	//! Not 0: its values are any numbers that tell rows apart, and may be compared with those of the same numbering only.
	idx_t numbering = 0;
};

//! A SELECT that is being put together: everything but its list.
struct SubplanBlock {
	//! What stands behind FROM: an item, or several that are joined from left to right; empty: there is one row without columns.
	string from;
	vector<string> where;
	vector<SubplanColumn> columns;
	//! Its columns are named with the alias of their item, so that others may be joined to it.
	bool qualified = false;
	//! What stands behind WHERE; and whether it can be no more than read: it is grouped, or has one row.
	string tail;
	bool closed = false;
	//! It is one item.
	bool single = false;
	//! Its items mean the same behind "x CROSS JOIN".
	bool appendable = true;

	//! The column BINDING; null if there is none.
	optional_ptr<const SubplanColumn> Find(const ColumnBinding &binding) const;
	//! Nothing is computed.
	bool IsPlain() const;
};

//! Writes one part of a plan whose scans are all of one server. What could mean something else there is not written: every
//! function here returns false if it met such a thing.
class SubplanWriter {
public:
	//! With SENDS parts without a table of a server are read as rows that are sent there.
	explicit SubplanWriter(ClientContext &context, bool sends = false)
	    : sends(sends), zero_divisor(CurrentZeroDivisor(context)) {
	}

	//! OP as one SELECT with the columns that it gives, in their order. Empty if the server cannot do it. COLUMNS are what it gives.
	string Write(LogicalOperator &op, vector<RemoteColumn> &columns);
	//! As Write, but only the first ROWS rows in the order of ORDERS.
	string WriteFirst(LogicalOperator &op, const vector<BoundOrderByNode> &orders, idx_t rows,
	                  vector<RemoteColumn> &columns);
	//! A part of this side that the query reads as its parameter of this place in SENT, from 1.
	struct Part {
		reference<LogicalOperator> op;
		shared_ptr<SentRows> rows;
	};
	vector<Part> sent;

	//! There is a table of a server in what was written.
	bool HasSource() const {
		return source != nullptr;
	}
	//! The server of what was written.
	const RemoteScanSource &Source() const {
		return *source;
	}

private:
	bool WriteOperator(LogicalOperator &op, SubplanBlock &block);
	//! As WriteOperator, for more to be said of the rows of OP.
	bool WriteInput(LogicalOperator &op, SubplanBlock &block);
	bool WriteScan(LogicalGet &get, SubplanBlock &block);
	//! OP runs here, and its rows are sent.
	bool WriteSent(LogicalOperator &op, SubplanBlock &block);
	bool WriteProjection(LogicalProjection &projection, SubplanBlock &block);
	bool WriteFilter(LogicalFilter &filter, SubplanBlock &block);
	bool WriteAggregate(LogicalAggregate &aggregate, SubplanBlock &block);
	//! A scalar subquery that has one row anyway.
	bool WriteScalar(LogicalAggregate &aggregate, SubplanBlock &block);
	//! A scalar subquery of which it has to be looked whether it has more rows; and the look.
	bool WriteCounted(LogicalAggregate &aggregate, SubplanBlock &block);
	bool WriteRowCheck(const BoundCaseExpression &check, const SubplanBlock &block, string &sql);
	bool WriteDistinct(LogicalDistinct &distinct, SubplanBlock &block);
	bool WriteDistinctOn(LogicalDistinct &distinct, SubplanBlock &block);
	bool WriteSetOperation(LogicalSetOperation &operation, SubplanBlock &block);
	bool WriteMaterialized(LogicalMaterializedCTE &cte, SubplanBlock &block);
	bool WriteRecursive(LogicalRecursiveCTE &cte, SubplanBlock &block);
	bool WriteReference(LogicalCTERef &reference, SubplanBlock &block);
	bool WriteEmpty(LogicalEmptyResult &empty, SubplanBlock &block);
	bool WriteUnnest(LogicalUnnest &unnest, SubplanBlock &block);
	//! The table function of that name, over the rows of another operator.
	bool WriteUnnest(LogicalGet &unnest, SubplanBlock &block);
	bool WriteDelimGet(LogicalDelimGet &get, SubplanBlock &block);

	bool WriteWindow(LogicalWindow &window, SubplanBlock &block);
	//! WINDOW over the rows of CHILD, which BLOCK writes.
	bool WriteWindowExpression(const BoundWindowExpression &window, LogicalOperator &child, const SubplanBlock &block,
	                           string &sql);
	bool WriteWindowArguments(const BoundWindowExpression &window, const SubplanBlock &block, string &sql);
	bool WriteOffset(const BoundWindowExpression &window, WindowBoundary boundary, const Expression *offset,
	                 const SubplanBlock &block, string &sql);
	bool WriteTopN(LogicalTopN &top, SubplanBlock &block);
	bool WriteLimit(LogicalLimit &limit, SubplanBlock &block);
	//! Those of OP's rows, which BLOCK writes, that REST leaves (SQL).
	bool WriteRows(LogicalOperator &op, const string &rest, SubplanBlock &block);

	bool WriteCrossProduct(LogicalOperator &op, SubplanBlock &block);
	bool WriteAnyJoin(LogicalAnyJoin &join, SubplanBlock &block);
	bool WriteJoin(LogicalComparisonJoin &join, SubplanBlock &block);
	bool WriteAsOfJoin(LogicalComparisonJoin &join, SubplanBlock &block);
	bool WriteDelimJoin(LogicalComparisonJoin &join, SubplanBlock &block);
	//! Its result is a column: whether there is a partner.
	bool WriteMark(LogicalComparisonJoin &join, SubplanBlock left, SubplanBlock right, SubplanBlock &block);
	//! That of EXISTS, which is never NULL. Written as a join with the distinct keys of RIGHT: as a subquery it would make the server look at
	//! every pair of rows.
	bool WriteExists(LogicalComparisonJoin &join, SubplanBlock left, SubplanBlock right, SubplanBlock &block);
	bool WriteConditions(const LogicalComparisonJoin &join, const SubplanBlock &left, const SubplanBlock &right,
	                     vector<string> &conditions);
	//! LEFT and RIGHT joined as TYPE says on CONDITIONS (SQL), which WRITE gives for the blocks as they are then.
	typedef std::function<bool(const SubplanBlock &left, const SubplanBlock &right, vector<string> &conditions)> on_t;
	bool Join(JoinType type, SubplanBlock left, SubplanBlock right, const on_t &write, SubplanBlock &block);

	//! COMPRESSED (may be null: then there is none) tells whether it is a compressed column.
	bool WriteExpression(const Expression &expression, const SubplanBlock &block, string &sql,
	                     bool *compressed = nullptr);
	//! What a projection gives, which may compress a column, or undo that.
	bool WriteProjected(const Expression &expression, const SubplanBlock &block, SubplanColumn &column);
	bool WriteOrders(const vector<BoundOrderByNode> &orders, const SubplanBlock &block, string &sql);

	//! "SELECT LIST FROM ... WHERE ... GROUP BY ...".
	static string Select(const SubplanBlock &block, const string &list);
	//! With the block's columns named c0, c1, ...
	static string Select(const SubplanBlock &block, bool distinct = false);
	//! Makes BLOCK one item, a subquery.
	void Wrap(SubplanBlock &block);
	//! Makes BLOCK "(SQL) AS alias", where SQL gives its columns as c0, c1, ...
	void Become(SubplanBlock &block, const string &sql);
	//! Makes BLOCK such that it can be joined to others.
	void Qualify(SubplanBlock &block);
	//! Makes BLOCK one item, outside of which nothing is compared or computed.
	void MakeItem(SubplanBlock &block);
	//! Leaves the columns that OP gives, in their order.
	static bool Restrict(LogicalOperator &op, SubplanBlock &block);
	//! A query that others name, read as an item.
	SubplanBlock Named(const string &name, const SubplanBlock &definition);
	//! Gives SELECT a name of its own; evaluated once, unless MATERIALIZE leaves that to the server.
	string Name(const string &select, CTEMaterialize materialize = CTEMaterialize::CTE_MATERIALIZE_ALWAYS);

	bool Accept(const RemoteScanSource &scanned);

	const bool sends;
	const ZeroDivisor zero_divisor;
	optional_ptr<const RemoteScanSource> source;
	idx_t aliases = 0;
	//! "name AS [[NOT] MATERIALIZED] (SELECT ...)", in an order in which each needs only those before.
	vector<string> named;
	//! One of them reads itself.
	bool recursive = false;
	//! What a DELIM_GET reads, for each DELIM_JOIN around it, the innermost last.
	struct DelimSource {
		string name;
		vector<SubplanColumn> columns;
	};
	vector<DelimSource> delims;
	//! What CTEs are called here, and what they give.
	unordered_map<idx_t, pair<string, SubplanBlock>> ctes;
};

//! Whether FUNCTION of ARGUMENTS gives the same in whatever order rows come.
bool IsExactAggregate(const AggregateFunction &function, const vector<unique_ptr<Expression>> &arguments);

//! Whether EXPRESSION is a call of one of DuckDB's functions that shorten values (COMPRESS), or that undo it.
bool IsCompression(const Expression &expression, bool compress);

//! The column that EXPRESSION is, perhaps in a shorter form. Null if it is something else.
optional_ptr<const ColumnBinding> ColumnOf(const Expression &expression);

//! No two of OP's rows are equal in the columns KEYS, as far as constraints, groups and the like tell.
bool IsUnique(LogicalOperator &op, const column_binding_set_t &keys);

//! The table function unnest over the rows of another operator.
bool IsUnnest(const LogicalGet &get);

//! first(x) and count(*), which DuckDB makes of a scalar subquery that is not correlated. Without count(*) it is a matter of chance which
//! value it gives, unless what is below has ONE_ROW.
enum class ScalarSubquery : uint8_t { NONE, ONE_ROW, COUNTED };
ScalarSubquery ScalarSubqueryKind(const LogicalOperator &op);

//! EXPRESSION, if it is what DuckDB puts above one: CASE WHEN count > 1 THEN error('...') ELSE value END.
optional_ptr<const BoundCaseExpression> AsRowCheck(const Expression &expression);

//! Whether OP needs nothing of a server, nor of the plan around it.
bool IsOfThisSide(const LogicalOperator &op);

//! Whether less travels if the server runs OP, for which the parts of this side are sent to it, than if OP is run here.
bool IsWorthSending(ClientContext &context, LogicalOperator &op);

//! Makes of PLAN, which is bound and no more, what SubplanWriter can write: constants, subqueries as joins, no columns that nothing reads,
//! TOP N. What the server's optimizer does as well is left to it.
void PrepareWholePlan(Optimizer &optimizer, unique_ptr<LogicalOperator> &plan);

//! Has the server run PLAN, which is bound and no more, if all of it can be written and is worth it whatever comes of it. False: there may
//! be parts for PushSubplans.
bool PushWholePlan(OptimizerExtensionInput &input, unique_ptr<LogicalOperator> &plan);

//! Has the server do what PLAN would do with its tables alone, as far as that is exactly the same and less comes of it. If KEYS_PLANNED is
//! false, groups that a join could do with fewer of are left for later.
void PushSubplans(OptimizerExtensionInput &input, unique_ptr<LogicalOperator> &plan, bool keys_planned);

} // namespace openduck
