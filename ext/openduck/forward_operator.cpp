#include "openduck/forward_operator.hpp"

#include "openduck/forward_rewrite.hpp"
#include "openduck/forward_sql.hpp"
#include "openduck/scan.hpp"
#include "openduck/transaction.hpp"

#include "duckdb/catalog/catalog_search_path.hpp"
#include "duckdb/common/exception/transaction_exception.hpp"
#include "duckdb/execution/physical_operator.hpp"
#include "duckdb/execution/physical_plan_generator.hpp"
#include "duckdb/main/client_data.hpp"
#include "duckdb/parallel/async_result.hpp"
#include "duckdb/parallel/pipeline.hpp"
#include "duckdb/parser/parsed_data/drop_info.hpp"
#include "duckdb/parser/statement/drop_statement.hpp"

namespace openduck {

//===--------------------------------------------------------------------===//
// ForwardedStatement
//===--------------------------------------------------------------------===//
bool ForwardedStatement::HasAllValues() const {
	for (auto &entry : parameters) {
		if (!entry.second || !entry.second->return_type.IsValid()) {
			return false;
		}
	}
	return true;
}

void ForwardedStatement::Describe(ClientContext &context, OpenDuckTransaction &transaction) {
	names.clear();
	types.clear();
	auto txn = transaction.Server(context, ServerUse::STATEMENT);
	ParameterPayload values(parameters);
	for (auto &column : remote->Describe(context, txn, sql, &catalog_version, values.Bytes())) {
		names.push_back(column.name);
		types.push_back(column.type);
	}
}

//===--------------------------------------------------------------------===//
// Execution
//===--------------------------------------------------------------------===//
namespace {

//! How often a statement is written anew because the catalog has changed meanwhile.
constexpr idx_t MAX_REWRITES = 100;

//! How long a thread of DuckDB's waits before the source gives it back, and how long one that only waits does before
//! DuckDB may look whether it should.
constexpr int64_t FIRST_WAIT_MS = 1;
constexpr int64_t WAIT_MS = 50;

//! A statement under way; one thread at a time.
struct ForwardExchange {
	~ForwardExchange() {
		od_msg_unref(payload.owner);
	}

	//! Waits for the next of the answer, if it is not here yet. False if it has not come.
	bool Await(int64_t wait_ms) {
		if (got == RemoteStream::Got::NOTHING_YET && code == OD_OK) {
			code = stream->TryNextWithin(wait_ms, payload, got, err);
		}
		return got != RemoteStream::Got::NOTHING_YET || code != OD_OK;
	}
	//! What has come; the caller owns it. Empty at the end.
	RemotePayload Take() {
		auto result = payload;
		payload = RemotePayload();
		if (got == RemoteStream::Got::PAYLOAD) {
			got = RemoteStream::Got::NOTHING_YET;
		}
		return result;
	}

	unique_ptr<RemoteStream> stream;
	RemoteStream::Got got = RemoteStream::Got::NOTHING_YET;
	RemotePayload payload;
	od_code code = OD_OK;
	od_error err = {};
};

class AwaitAnswer : public AsyncTask {
public:
	explicit AwaitAnswer(shared_ptr<ForwardExchange> exchange_p) : exchange(std::move(exchange_p)) {
	}
	void Execute() override {
		exchange->Await(WAIT_MS);
	}

private:
	shared_ptr<ForwardExchange> exchange;
};

class ForwardSourceState : public GlobalSourceState {
public:
	//! Null before the statement is sent.
	shared_ptr<ForwardExchange> exchange;
	unique_ptr<NativeReader> reader;
	idx_t rewrites = 0;
	bool answered = false;
	bool reading = false;
	bool finished = false;
};

class PhysicalForward : public PhysicalOperator {
public:
	static constexpr const PhysicalOperatorType TYPE = PhysicalOperatorType::EXTENSION;

	PhysicalForward(PhysicalPlan &plan, shared_ptr<ForwardedStatement> forwarded_p)
	    : PhysicalOperator(plan, TYPE, forwarded_p->types, 1), forwarded(std::move(forwarded_p)) {
	}

	string GetName() const override {
		return "OPENDUCK_EXECUTE";
	}
	InsertionOrderPreservingMap<string> ParamsToString() const override {
		InsertionOrderPreservingMap<string> result;
		result["Endpoint"] = forwarded->remote->Authority();
		result["Database"] = forwarded->remote->Database();
		result["Remote SQL"] = forwarded->sql;
		return result;
	}
	bool RunsAt(const Remote &remote) const {
		return forwarded->remote.get() == &remote;
	}
	bool IsSource() const override {
		return true;
	}
	unique_ptr<GlobalSourceState> GetGlobalSourceState(ClientContext &context) const override {
		return make_uniq<ForwardSourceState>();
	}

protected:
	SourceResultType GetDataInternal(ExecutionContext &context, DataChunk &chunk,
	                                 OperatorSourceInput &input) const override {
		auto &state = input.global_state.Cast<ForwardSourceState>();
		while (!state.finished) {
			if (state.reading && state.reader->Next() > 0) {
				state.reader->Read(chunk);
				return SourceResultType::HAVE_MORE_OUTPUT;
			}
			state.reading = false;
			if (!state.exchange) {
				Send(context.client, state);
			}
			if (!state.exchange->Await(FIRST_WAIT_MS)) {
				WaitOutside(context, state, input.interrupt_state);
				return SourceResultType::BLOCKED;
			}
			Receive(context.client, state);
		}
		return SourceResultType::FINISHED;
	}

private:
	OpenDuckTransaction &Transaction(ClientContext &context) const {
		auto &catalog = Catalog::GetCatalog(context, forwarded->catalog);
		if (!OpenDuckCatalog::Is(catalog) || catalog.Cast<OpenDuckCatalog>().SharedRemote() != forwarded->remote) {
			throw TransactionException("database \"%s\" was attached anew; run the statement again",
			                           forwarded->catalog);
		}
		return OpenDuckTransaction::Get(context, catalog);
	}

	void Send(ClientContext &context, ForwardSourceState &state) const {
		auto &transaction = Transaction(context);
		auto txn = transaction.Server(context, ServerUse::STATEMENT);
		if (forwarded->writes) {
			transaction.Wrote(false);
		}
		ParameterPayload values(forwarded->parameters);
		auto exchange = make_shared_ptr<ForwardExchange>();
		exchange->stream = RemoteStream::Start(&context, *forwarded->remote, txn, forwarded->sql,
		                                       forwarded->catalog_version, false, values.Bytes());
		state.exchange = std::move(exchange);
	}

	//! A client without a task spins while another thread runs one, and sleeps while all are blocked. So the source's own
	//! task blocks, and who waits is none of a pipeline.
	static void WaitOutside(ExecutionContext &context, ForwardSourceState &state, InterruptState &interrupt) {
		vector<unique_ptr<AsyncTask>> tasks;
		tasks.push_back(make_uniq<AwaitAnswer>(state.exchange));
		AsyncResult(std::move(tasks)).ScheduleTasks(interrupt, context.pipeline->executor);
	}

	//! Takes what has come. The statement runs once: it is sent again only if the server says that it has not begun to run it.
	void Receive(ClientContext &context, ForwardSourceState &state) const {
		auto &exchange = *state.exchange;
		if (exchange.code == OD_E_STALE_CATALOG && !state.answered) {
			if (state.rewrites++ == MAX_REWRITES) {
				throw TransactionException("the remote catalog changes all the time; run the statement again");
			}
			auto &transaction = Transaction(context);
			transaction.Drop();
			WriteAnew(context, transaction);
			state.exchange.reset();
			return;
		}
		if (exchange.code != OD_OK) {
			if (state.answered) {
				ThrowError(exchange.err);
			}
			ThrowRemote(exchange.err);
		}
		state.answered = true;
		auto payload = exchange.Take();
		if (!payload.owner) {
			Finish(context, state);
			return;
		}
		if (!state.reader) {
			state.reader = make_uniq<NativeReader>(forwarded->names, forwarded->types);
		}
		state.reader->Start(payload.owner, payload.bytes);
		state.reading = true;
	}

	//! Names may lead elsewhere in the catalog as it is now; the result must be what was planned.
	void WriteAnew(ClientContext &context, OpenDuckTransaction &transaction) const {
		auto statement = forwarded->original->Copy();
		ForwardRewriter rewriter(context);
		try {
			rewriter.Rewrite(*statement);
		} catch (NotForwardable &) {
			ThrowCatalogChanged();
		}
		forwarded->sql = StatementToSql(*statement);
		if (forwarded->return_type == StatementReturnType::QUERY_RESULT) {
			auto planned = forwarded->types;
			forwarded->Describe(context, transaction);
			if (forwarded->types != planned) {
				forwarded->types = planned;
				ThrowCatalogChanged();
			}
			return;
		}
		forwarded->catalog_version = transaction.Snapshot(context)->version;
	}

	//! The server's error, unless it knows no better than DuckDB did here.
	[[noreturn]] void ThrowRemote(const od_error &err) const {
		auto &local = forwarded->local_error;
		try {
			ThrowError(err);
		} catch (std::exception &ex) {
			auto type = ErrorData(ex).Type();
			if (local.HasError() && type == local.Type() &&
			    (type == ExceptionType::CATALOG || type == ExceptionType::BINDER)) {
				local.Throw();
			}
			throw;
		}
	}

	//! As DuckDB does: who is in a schema that was dropped is in the default one.
	void LeaveDroppedSchema(ClientContext &context) const {
		if (forwarded->original->type != StatementType::DROP_STATEMENT) {
			return;
		}
		auto &info = *forwarded->original->Cast<DropStatement>().info;
		auto &path = *ClientData::Get(context).catalog_search_path;
		auto &current = path.GetDefault();
		if (info.type == CatalogType::SCHEMA_ENTRY && current.schema == info.name &&
		    current.catalog == forwarded->catalog) {
			path.Set(CatalogSearchEntry(forwarded->catalog, DEFAULT_SCHEMA), CatalogSetPathType::SET_DIRECTLY);
		}
	}

	void Finish(ClientContext &context, ForwardSourceState &state) const {
		state.finished = true;
		if (forwarded->changes_catalog) {
			Transaction(context).Wrote(true);
			LeaveDroppedSchema(context);
		}
	}

	shared_ptr<ForwardedStatement> forwarded;
};

class LogicalForward : public LogicalExtensionOperator {
public:
	explicit LogicalForward(shared_ptr<ForwardedStatement> forwarded_p) : forwarded(std::move(forwarded_p)) {
	}

	string GetName() const override {
		return "OPENDUCK_EXECUTE";
	}
	string GetExtensionName() const override {
		return "openduck";
	}
	bool SupportSerialization() const override {
		return false;
	}
	InsertionOrderPreservingMap<string> ParamsToString() const override {
		InsertionOrderPreservingMap<string> result;
		result["Remote SQL"] = forwarded->sql;
		return result;
	}
	vector<ColumnBinding> GetColumnBindings() override {
		return GenerateColumnBindings(0, forwarded->types.size());
	}
	PhysicalOperator &CreatePlan(ClientContext &context, PhysicalPlanGenerator &planner) override {
		return planner.Make<PhysicalForward>(forwarded);
	}

protected:
	void ResolveTypes() override {
		types = forwarded->types;
	}

private:
	shared_ptr<ForwardedStatement> forwarded;
};

} // namespace

unique_ptr<LogicalOperator> PlanForwarded(shared_ptr<ForwardedStatement> forwarded) {
	return make_uniq<LogicalForward>(std::move(forwarded));
}

bool RunsForwarded(const PhysicalOperator &plan, const Remote &remote) {
	auto forward = dynamic_cast<const PhysicalForward *>(&plan);
	if (forward) {
		return forward->RunsAt(remote);
	}
	for (auto &child : plan.GetChildren()) {
		if (RunsForwarded(child.get(), remote)) {
			return true;
		}
	}
	return false;
}

} // namespace openduck
