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

class ForwardSourceState : public GlobalSourceState {
public:
	unique_ptr<RemoteStream> stream;
	unique_ptr<NativeReader> reader;
	//! The first answer, until it is read.
	RemotePayload first;
	bool reading = false;
	bool finished = false;

	~ForwardSourceState() override {
		od_msg_unref(first.owner);
	}
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
		if (state.finished) {
			return SourceResultType::FINISHED;
		}
		if (!state.stream) {
			Start(context.client, state);
		}
		return Read(context.client, state, chunk) ? SourceResultType::HAVE_MORE_OUTPUT : SourceResultType::FINISHED;
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

	//! Sends the statement. It runs once: it is sent again only if the server says that it has not begun to run it.
	void Start(ClientContext &context, ForwardSourceState &state) const {
		auto &transaction = Transaction(context);
		auto txn = transaction.Server(context, ServerUse::STATEMENT);
		if (forwarded->writes) {
			transaction.Wrote(false);
		}
		ParameterPayload values(forwarded->parameters);
		for (idx_t tries = 0;; tries++) {
			state.stream = RemoteStream::Start(&context, *forwarded->remote, txn, forwarded->sql,
			                                   forwarded->catalog_version, false, values.Bytes());
			od_error err = {};
			auto code = state.stream->TryNext(state.first, err);
			if (code == OD_E_STALE_CATALOG) {
				if (tries == MAX_REWRITES) {
					throw TransactionException("the remote catalog changes all the time; run the statement again");
				}
				transaction.Drop();
				WriteAnew(context, transaction);
				continue;
			}
			if (code != OD_OK) {
				ThrowRemote(err);
			}
			break;
		}
		state.reader = make_uniq<NativeReader>(forwarded->names, forwarded->types);
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

	//! False at the end of the rows.
	bool Read(ClientContext &context, ForwardSourceState &state, DataChunk &chunk) const {
		while (true) {
			if (state.reading && state.reader->Next() > 0) {
				state.reader->Read(chunk);
				return true;
			}
			state.reading = false;
			auto payload = state.first;
			state.first = RemotePayload();
			if (!payload.owner && !state.stream->Next(payload)) {
				state.finished = true;
				if (forwarded->changes_catalog) {
					Transaction(context).Wrote(true);
					LeaveDroppedSchema(context);
				}
				return false;
			}
			state.reader->Start(payload.owner, payload.bytes);
			state.reading = true;
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
