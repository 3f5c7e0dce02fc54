//===----------------------------------------------------------------------===//
// openduck/forward.hpp: statements that are not carried out here, but sent to the server as a whole
//===----------------------------------------------------------------------===//
#pragma once

#include "openduck/forward_operator.hpp"

#include "duckdb/main/client_context_state.hpp"
#include "duckdb/parser/statement/insert_statement.hpp"
#include "duckdb/planner/bound_statement.hpp"

namespace openduck {

//! What becomes of the statement that a connection is planning. DuckDB binds a copy first, as while a remote database is
//! attached a statement may have to be bound again. If what comes out could be the server's, binding is broken off; then the
//! statement as the user wrote it is at hand, is rewritten with the server's names, and takes the place of the second plan.
//! So does one that DuckDB could not bind, as names of it are known to the server only.
class ForwardState : public ClientContextState {
public:
	static shared_ptr<ForwardState> Get(ClientContext &context);

	//! DuckDB is about to bind a statement for the first time.
	void BeginPlanning();
	//! It has done so, and needs no second time.
	void EndPlanning();

	enum class Decision : uint8_t {
		FORWARD, // bind it again: it is the server's
		OURS,    // bind it again: it was broken off, but is not the server's
		LEAVE    // neither
	};
	//! Binding STATEMENT has ended with ERROR, perhaps because it was broken off.
	Decision Decide(ClientContext &context, SQLStatement &statement, ErrorData &error);

	//! A statement was bound. Throws to break it off, or puts the server's plan in the place of BOUND's.
	void Bound(ClientContext &context, Binder &binder, BoundStatement &bound);
	//! STATEMENT cannot be bound here. Empty if it is not the server's.
	BoundStatement NotBound(ClientContext &context, Binder &binder, SQLStatement &statement);

private:
	//! FORWARDED for STATEMENT, and what comes back, unless binding will tell. Throws NotForwardable, or the server's error.
	shared_ptr<ForwardedStatement> Write(ClientContext &context, const SQLStatement &statement, bool bound);
	//! FORWARDED.Describe, unless its answer is remembered.
	void Describe(ClientContext &context, ForwardedStatement &forwarded, OpenDuckTransaction &transaction);
	//! The plan of what is to be forwarded, with the parameters that BINDER knows.
	unique_ptr<LogicalOperator> TakePlan(Binder &binder);

	//! Puts the plan of UPSERT in the place of BOUND's, if there is one.
	void TakeUpsert(ClientContext &context, Binder &binder, BoundStatement &bound);

	//! The next statement bound is bound for the first time.
	bool armed = false;
	//! It was broken off,
	bool broken_off = false;
	//! because its plan may become another one, but not the server's,
	bool ours = false;
	//! if it is this,
	unique_ptr<InsertStatement> upsert;
	//! and this takes its place,
	shared_ptr<ForwardedStatement> pending;
	//! or this is said.
	ErrorData refusal;
	//! What the server said of statements with parameters: they are bound again at each execution.
	static constexpr idx_t MAX_DESCRIBED = 64;
	unordered_map<string, pair<vector<string>, vector<LogicalType>>> described;
};

//! Makes DuckDB tell what it has bound.
void RegisterForward(DatabaseInstance &db);

} // namespace openduck
