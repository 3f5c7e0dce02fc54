//===----------------------------------------------------------------------===//
// openduck/write.hpp: the operator that sends rows up and lets a statement of the server use them
//===----------------------------------------------------------------------===//
#pragma once

#include "openduck/forward_parameters.hpp"
#include "openduck/write_upload.hpp"

#include "duckdb/execution/physical_operator.hpp"

namespace openduck {

class OpenDuckCatalog;
class RemoteWrite;
class RemoteWriteGlobalState;

//! What is written, and how.
struct RemoteWriteInfo {
	//! What EXPLAIN calls it: INSERT, UPDATE, ...
	string name;
	string target;
	//! The rows that go up: of the operator's child the columns FROM.
	StagedColumns staged;
	vector<idx_t> from;
	//! The statement of the server, around the name of the table that holds the rows.
	string head;
	string tail;
	//! The rows are not sent: the statement (HEAD and TAIL) runs once for each.
	bool once_a_row = false;
	//! The statement if there are no rows; empty: then nothing has to be done.
	string without_rows;
	//! Other names are found afterwards.
	bool changes_catalog = false;
	//! The statement gives rows, of the operator's types; else their number.
	bool returning = false;
	//! Rows are to arrive in their order.
	bool ordered = false;
	//! Several threads may send.
	bool parallel = true;
	//! The statement reads the rows once, and gives no rows.
	bool single_pass = false;
	//! The parameters in the statement; with any, it is not SINGLE_PASS.
	forward_parameters_t parameters;
};

//! The statements of several operators, which run one after another when the rows of all have arrived.
class RemoteWriteSequence {
public:
	virtual ~RemoteWriteSequence() = default;
	//! WRITE has all its rows, and STATE runs its statement. Gives the states whose statements are to run now, in order.
	virtual vector<reference<RemoteWriteGlobalState>> Arrived(const RemoteWrite &write,
	                                                          RemoteWriteGlobalState &state) = 0;
};

//! Takes rows, each thread's own, into a staging table of the server's transaction; then runs the statement there. All in
//! one transaction: whatever fails, nothing of it remains. Or, the faster way: the statement runs from the start and reads the
//! rows as they come, in a transaction of its own unless the user has begun one.
class RemoteWrite : public PhysicalOperator {
public:
	static constexpr const PhysicalOperatorType TYPE = PhysicalOperatorType::EXTENSION;

	RemoteWrite(PhysicalPlan &plan, vector<LogicalType> types, OpenDuckCatalog &catalog, RemoteWriteInfo info,
	            idx_t estimated_cardinality);

	OpenDuckCatalog &catalog;
	const RemoteWriteInfo info;
	//! Null: the statement runs as soon as its rows have arrived.
	shared_ptr<RemoteWriteSequence> sequence;
	//! This execution's statement may read the rows as they come: see BeginRemoteWrites.
	mutable atomic<bool> direct {false};

	string GetName() const override;
	InsertionOrderPreservingMap<string> ParamsToString() const override;

	unique_ptr<GlobalSinkState> GetGlobalSinkState(ClientContext &context) const override;
	unique_ptr<LocalSinkState> GetLocalSinkState(ExecutionContext &context) const override;
	SinkResultType Sink(ExecutionContext &context, DataChunk &chunk, OperatorSinkInput &input) const override;
	SinkNextBatchType NextBatch(ExecutionContext &context, OperatorSinkNextBatchInput &input) const override;
	SinkCombineResultType Combine(ExecutionContext &context, OperatorSinkCombineInput &input) const override;
	SinkFinalizeType Finalize(Pipeline &pipeline, Event &event, ClientContext &context,
	                          OperatorSinkFinalizeInput &input) const override;
	bool IsSink() const override {
		return true;
	}
	bool ParallelSink() const override {
		return info.parallel;
	}
	bool SinkOrderDependent() const override {
		return info.ordered;
	}
	OperatorPartitionInfo RequiredPartitionInfo() const override;

	unique_ptr<GlobalSourceState> GetGlobalSourceState(ClientContext &context) const override;
	SourceResultType GetDataInternal(ExecutionContext &context, DataChunk &chunk,
	                                 OperatorSourceInput &input) const override;
	bool IsSource() const override {
		return true;
	}
};

//! Before anything of PLAN runs: a write that is all that PLAN has to do with servers is made direct. Others get their
//! transaction at the server, so that the plan's scans read in it too.
void BeginRemoteWrites(ClientContext &context, const PhysicalOperator &plan, const StatementProperties &properties);

} // namespace openduck
