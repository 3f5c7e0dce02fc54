//===----------------------------------------------------------------------===//
// vgi/aggregation.hpp: an aggregate function of a worker's, bound for one place in a plan
//===----------------------------------------------------------------------===//
#pragma once

#include "vgi/functions.hpp"

namespace vgi {

//! What the worker keeps of one, until the transaction ends.
struct AggregateRun {
	~AggregateRun() {
		od_vgi_aggregate_close(handle);
	}
	od_vgi_aggregate *handle = nullptr;
	//! How many groups and partitions have a number.
	atomic<int64_t> groups {0};
	atomic<int64_t> partitions {0};
};

//! Thread: any.
class Aggregation {
public:
	//! Binds it. CONSTANTS go to the bind, rows of TYPES to what is kept.
	Aggregation(ClientContext &context, shared_ptr<WorkerFunction> worker, vector<Value> constants,
	            vector<LogicalType> types, const vector<string> &names);

	//! What is kept in the transaction that runs; it begins with the first call of one. Lives at least as long as the transaction.
	shared_ptr<AggregateRun> Run();
	//! The same if it has begun, else null.
	shared_ptr<AggregateRun> Begun();

	//! Whether it is the same function of the same arguments.
	bool Equals(const Aggregation &other) const;

	//! Of the connection, which outlives what runs in it. (A task must not hold it: it would be the one to end it.)
	ClientContext &context;
	const shared_ptr<WorkerFunction> worker;
	const vector<LogicalType> types;
	LogicalType result;
	//! Of rows with their group, and of a partition's.
	unique_ptr<RowsSchema> grouped, alone;

private:
	shared_ptr<AggregateRun> Open();

	const vector<Value> constants;
	mutex lock; //!< guards run, also while it begins
	weak_ptr<AggregateRun> run;
};

} // namespace vgi
