#include "openduck/forward.hpp"

#include "openduck/forward_classify.hpp"
#include "openduck/forward_rewrite.hpp"
#include "openduck/forward_sql.hpp"
#include "openduck/transaction.hpp"
#include "openduck/write_upsert.hpp"

#include "duckdb/main/client_data.hpp"
#include "duckdb/main/prepared_statement_data.hpp"
#include "duckdb/parser/statement/execute_statement.hpp"
#include "duckdb/parser/statement/explain_statement.hpp"
#include "duckdb/parser/statement/prepare_statement.hpp"
#include "duckdb/planner/binder.hpp"
#include "duckdb/planner/operator/logical_explain.hpp"
#include "duckdb/planner/operator_extension.hpp"
#include "duckdb/planner/planner_extension.hpp"
#include "duckdb/transaction/meta_transaction.hpp"

namespace openduck {

//===--------------------------------------------------------------------===//
// What a statement is
//===--------------------------------------------------------------------===//
//! What is run in the end, within EXPLAIN, PREPARE and EXECUTE; null if it is not known.
static optional_ptr<const SQLStatement> Innermost(ClientContext &context, const SQLStatement &statement) {
	switch (statement.type) {
	case StatementType::EXPLAIN_STATEMENT:
		return Innermost(context, *statement.Cast<ExplainStatement>().stmt);
	case StatementType::PREPARE_STATEMENT:
		return Innermost(context, *statement.Cast<PrepareStatement>().statement);
	case StatementType::EXECUTE_STATEMENT: {
		auto &known = ClientData::Get(context).prepared_statements;
		auto entry = known.find(statement.Cast<ExecuteStatement>().name);
		if (entry == known.end() || !entry->second->unbound_statement) {
			return nullptr;
		}
		return Innermost(context, *entry->second->unbound_statement);
	}
	default:
		return statement;
	}
}

static bool IsDefinition(StatementType type) {
	return type == StatementType::CREATE_STATEMENT || type == StatementType::DROP_STATEMENT ||
	       type == StatementType::ALTER_STATEMENT;
}

static bool IsCreateTableAs(const SQLStatement &statement) {
	if (statement.type != StatementType::CREATE_STATEMENT) {
		return false;
	}
	auto &info = *statement.Cast<CreateStatement>().info;
	return info.type == CatalogType::TABLE_ENTRY && info.Cast<CreateTableInfo>().query;
}

static bool IsManipulation(StatementType type) {
	return type == StatementType::INSERT_STATEMENT || type == StatementType::UPDATE_STATEMENT ||
	       type == StatementType::DELETE_STATEMENT || type == StatementType::MERGE_INTO_STATEMENT;
}

static bool Returns(const SQLStatement &statement) {
	switch (statement.type) {
	case StatementType::INSERT_STATEMENT:
		return !statement.Cast<InsertStatement>().returning_list.empty();
	case StatementType::UPDATE_STATEMENT:
		return !statement.Cast<UpdateStatement>().returning_list.empty();
	case StatementType::DELETE_STATEMENT:
		return !statement.Cast<DeleteStatement>().returning_list.empty();
	case StatementType::MERGE_INTO_STATEMENT:
		return !statement.Cast<MergeIntoStatement>().returning_list.empty();
	default:
		return statement.type == StatementType::SELECT_STATEMENT;
	}
}

static DatabaseModificationType Modification(StatementType type) {
	switch (type) {
	case StatementType::INSERT_STATEMENT:
		return DatabaseModificationType::INSERT_DATA;
	case StatementType::UPDATE_STATEMENT:
		return DatabaseModificationType::UPDATE_DATA;
	case StatementType::DELETE_STATEMENT:
		return DatabaseModificationType::DELETE_DATA;
	case StatementType::CREATE_STATEMENT:
		return DatabaseModificationType::CREATE_CATALOG_ENTRY;
	case StatementType::DROP_STATEMENT:
		return DatabaseModificationType::DROP_CATALOG_ENTRY;
	case StatementType::ALTER_STATEMENT:
		return DatabaseModificationType::ALTER_TABLE;
	default:
		return DatabaseModificationType::INSERT_DATA | DatabaseModificationType::UPDATE_DATA |
		       DatabaseModificationType::DELETE_DATA;
	}
}

//! Errors after which the server may know better: they are about names and what they stand for.
static bool MayKnowBetter(const SQLStatement &statement, const ErrorData &error) {
	switch (error.Type()) {
	case ExceptionType::CATALOG:
	case ExceptionType::BINDER:
		return true;
	case ExceptionType::IO:
	case ExceptionType::INTERRUPT:
	case ExceptionType::PERMISSION:
	case ExceptionType::PARSER:
	case ExceptionType::TRANSACTION:
	case ExceptionType::INTERNAL:
	case ExceptionType::OUT_OF_MEMORY:
		return false;
	default:
		return IsManipulation(statement.type) || IsDefinition(statement.type);
	}
}

//! Whether what the server says of a statement counts, and not what was said of it here. It does if it is something else,
//! such as that a view no longer fits its table; the same means that the server does not know the name either. BOUND: here
//! it was understood, and what counts is that it cannot be done.
static bool KnewBetter(bool bound, const ErrorData &here, const ErrorData &server) {
	switch (server.Type()) {
	case ExceptionType::CATALOG:
	case ExceptionType::BINDER:
	case ExceptionType::NOT_IMPLEMENTED:
	case ExceptionType::INVALID_INPUT:
		return !bound && server.Type() != here.Type();
	case ExceptionType::CONVERSION:
	case ExceptionType::OUT_OF_RANGE:
		return true;
	default:
		return false;
	}
}

//===--------------------------------------------------------------------===//
// Decision
//===--------------------------------------------------------------------===//
shared_ptr<ForwardState> ForwardState::Get(ClientContext &context) {
	return context.registered_state->GetOrCreate<ForwardState>("openduck_forward");
}

void ForwardState::BeginPlanning() {
	armed = true;
	broken_off = false;
	ours = false;
	upsert.reset();
	pending.reset();
	refusal = ErrorData();
}

void ForwardState::EndPlanning() {
	armed = false;
}

shared_ptr<ForwardedStatement> ForwardState::Write(ClientContext &context, const SQLStatement &statement, bool bound) {
	auto result = make_shared_ptr<ForwardedStatement>();
	result->original = statement.Copy();
	auto written = statement.Copy();
	ForwardRewriter rewriter(context);
	rewriter.Rewrite(*written);
	auto target = rewriter.Target();
	if (!target) {
		throw NotForwardable("it names nothing remote");
	}
	if (statement.type == StatementType::SELECT_STATEMENT && !rewriter.NeedsServer()) {
		throw NotForwardable("all its names are known here");
	}
	auto &transaction = OpenDuckTransaction::Get(context, *target);
	result->sql = StatementToSql(*written);
	result->catalog = target->GetName();
	result->remote = target->SharedRemote();
	result->catalog_version = transaction.Snapshot(context)->version;
	result->writes = statement.type != StatementType::SELECT_STATEMENT;
	result->changes_catalog = IsDefinition(statement.type);
	result->for_one_execution = rewriter.HoldsValues();
	for (auto &name : rewriter.Parameters()) {
		result->parameters[name] = nullptr;
	}
	if (Returns(statement)) {
		if (!bound && result->parameters.empty()) {
			Describe(context, *result, transaction);
		}
		result->return_type = StatementReturnType::QUERY_RESULT;
	} else {
		auto counts = statement.type == StatementType::CREATE_STATEMENT || IsManipulation(statement.type);
		result->names = {counts ? "Count" : "Success"};
		result->types = {counts ? LogicalType::BIGINT : LogicalType::BOOLEAN};
		result->return_type = IsDefinition(statement.type) && !IsCreateTableAs(statement)
		                          ? StatementReturnType::NOTHING
		                          : StatementReturnType::CHANGED_ROWS;
	}
	return result;
}

void ForwardState::Describe(ClientContext &context, ForwardedStatement &forwarded, OpenDuckTransaction &transaction) {
	auto key = forwarded.catalog + " " + to_string(forwarded.catalog_version) + " " + forwarded.sql;
	for (auto &entry : forwarded.parameters) {
		key += " " + entry.first + " " + entry.second->GetValue().type().ToString();
	}
	auto known = described.find(key);
	if (known != described.end()) {
		forwarded.names = known->second.first;
		forwarded.types = known->second.second;
		return;
	}
	auto version = forwarded.catalog_version;
	forwarded.Describe(context, transaction);
	if (version == 0 || forwarded.catalog_version != version) {
		return;
	}
	if (described.size() >= MAX_DESCRIBED) {
		described.clear();
	}
	described[key] = make_pair(forwarded.names, forwarded.types);
}

//! Throws what the server says against FORWARDED, as far as that does not depend on the values of parameters.
static void AskServer(ClientContext &context, ForwardedStatement &forwarded, OpenDuckTransaction &transaction) {
	auto version = forwarded.catalog_version;
	try {
		auto txn = transaction.Server(context, ServerUse::STATEMENT);
		forwarded.remote->Describe(context, txn, forwarded.sql, &version);
	} catch (std::exception &ex) {
		if (forwarded.parameters.empty() || ErrorData(ex).Type() != ExceptionType::INVALID_INPUT) {
			throw;
		}
	}
}

ForwardState::Decision ForwardState::Decide(ClientContext &context, SQLStatement &statement, ErrorData &error) {
	armed = false;
	auto bound = broken_off;
	broken_off = false;
	auto inner = Innermost(context, statement);
	if (!inner || (!bound && !MayKnowBetter(*inner, error))) {
		return bound ? Decision::OURS : Decision::LEAVE;
	}
	if (bound && inner->type == StatementType::INSERT_STATEMENT && inner->Cast<InsertStatement>().on_conflict_info) {
		upsert = unique_ptr_cast<SQLStatement, InsertStatement>(inner->Copy());
	}
	if (ours) {
		ours = false;
		return Decision::OURS;
	}
	auto refused = false;
	try {
		auto written = Write(context, *inner, bound);
		auto later =
		    statement.type == StatementType::EXPLAIN_STATEMENT || statement.type == StatementType::PREPARE_STATEMENT;
		auto ask = later && IsManipulation(inner->type);
		auto second = false;
		auto &catalog = Catalog::GetCatalog(context, written->catalog);
		if (!bound) {
			written->local_error = error;
			// If it fails as it runs, DuckDB takes the transaction for one that has written there. A second database is not
			// written to, but what is wrong with the statement comes before that.
			auto modified = MetaTransaction::Get(context).ModifiedDatabase();
			second = written->writes && modified && !RefersToSameObject(*modified, catalog.GetAttached());
			ask = ask || second || (written->writes && !modified && !context.transaction.IsAutoCommit());
		}
		if (ask) {
			// The server would not refuse it before it is run: it is asked now.
			AskServer(context, *written, OpenDuckTransaction::Get(context, catalog));
			if (second) {
				refused = true;
				MetaTransaction::Get(context).ModifyDatabase(catalog.GetAttached(), Modification(inner->type));
			}
		}
		pending = std::move(written);
		return Decision::FORWARD;
	} catch (NotForwardable &ex) {
		if (ex.refused && !bound) {
			throw BinderException(ex.what());
		}
		if (ex.refused) {
			refusal = ErrorData(ExceptionType::BINDER, ex.what());
		} else if (bound && IsDefinition(inner->type) && !IsCreateTableAs(*inner)) {
			// There is no other way to carry it out.
			refusal =
			    ErrorData(ExceptionType::BINDER,
			              "what a remote database stores can only use what that database has: " + string(ex.what()));
		}
	} catch (InterruptException &) {
		throw;
	} catch (std::exception &ex) {
		if (refused || KnewBetter(bound, error, ErrorData(ex))) {
			throw;
		}
	}
	return bound ? Decision::OURS : Decision::LEAVE;
}

//===--------------------------------------------------------------------===//
// Plan
//===--------------------------------------------------------------------===//
unique_ptr<LogicalOperator> ForwardState::TakePlan(Binder &binder) {
	auto forwarded = std::move(pending);
	pending.reset();
	TakeParameters(binder, forwarded->parameters);
	auto &properties = binder.GetStatementProperties();
	// All rows come before the statement counts as done: a result that is closed early must not undo what it did.
	properties.output_type = QueryResultOutputType::FORCE_MATERIALIZED;
	if (forwarded->for_one_execution) {
		properties.always_require_rebind = true;
	}
	return PlanForwarded(std::move(forwarded));
}

//! PLAN takes the place of BOUND's, or of the one that BOUND shows.
static void Replace(BoundStatement &bound, unique_ptr<LogicalOperator> plan) {
	if (bound.plan->type != LogicalOperatorType::LOGICAL_EXPLAIN) {
		bound.plan = std::move(plan);
		return;
	}
	auto &shown = bound.plan->Cast<LogicalExplain>();
	shown.logical_plan_unopt = plan->ToString(shown.explain_format);
	shown.children[0] = std::move(plan);
}

void ForwardState::Bound(ClientContext &context, Binder &binder, BoundStatement &bound) {
	if (!bound.plan || (!armed && !pending && !upsert && !refusal.HasError())) {
		return;
	}
	auto write = WriteOf(*bound.plan);
	if (!write) {
		return;
	}
	if (refusal.HasError()) {
		auto error = std::move(refusal);
		refusal = ErrorData();
		error.Throw();
	}
	if (upsert && !pending) {
		return TakeUpsert(context, binder, bound);
	}
	if (!pending) {
		ours = LooksLikeUpsert(*write);
		if (MayForward(context, binder.GetStatementProperties(), *write)) {
			ours = false;
			broken_off = true;
			throw Exception(ExceptionType::INVALID, "the statement is the server's");
		}
		if (ours) {
			broken_off = true;
			throw Exception(ExceptionType::INVALID, "a part of the statement is the server's");
		}
		return;
	}
	auto explain = bound.plan->type == LogicalOperatorType::LOGICAL_EXPLAIN;
	upsert.reset();
	if (!explain) {
		pending->names = bound.names;
		pending->types = bound.types;
	} else if (pending->types.empty()) {
		bound.plan->children[0]->ResolveOperatorTypes();
		pending->types = bound.plan->children[0]->types;
		pending->names = vector<string>(pending->types.size());
	}
	Replace(bound, TakePlan(binder));
}

void ForwardState::TakeUpsert(ClientContext &context, Binder &binder, BoundStatement &bound) {
	auto statement = std::move(upsert);
	auto explain = bound.plan->type == LogicalOperatorType::LOGICAL_EXPLAIN;
	auto plan = PlanUpsert(context, binder, *statement, explain ? *bound.plan->children[0] : *bound.plan);
	if (plan) {
		Replace(bound, std::move(plan));
	}
}

BoundStatement ForwardState::NotBound(ClientContext &context, Binder &binder, SQLStatement &statement) {
	BoundStatement result;
	if (!pending || (statement.type != StatementType::EXPLAIN_STATEMENT && statement.type != pending->original->type)) {
		return result;
	}
	auto forwarded = pending;
	auto &properties = binder.GetStatementProperties();
	auto &catalog = Catalog::GetCatalog(context, forwarded->catalog);
	auto written = MetaTransaction::Get(context).ModifiedDatabase();
	if (forwarded->writes && written && !RefersToSameObject(*written, catalog.GetAttached())) {
		return result; // DuckDB would refuse a second database; what it said of the statement comes first
	}
	if (forwarded->writes) {
		properties.RegisterDBModify(catalog, context, Modification(forwarded->original->type));
	} else {
		properties.RegisterDBRead(catalog, context);
	}
	result.plan = TakePlan(binder);
	if (forwarded->types.empty()) {
		if (forwarded->HasAllValues()) {
			Describe(context, *forwarded, OpenDuckTransaction::Get(context, catalog));
		} else {
			forwarded->names = {"unknown"};
			forwarded->types = {LogicalTypeId::UNKNOWN};
		}
	}
	properties.return_type = forwarded->return_type;
	result.names = forwarded->names;
	result.types = forwarded->types;
	if (statement.type == StatementType::EXPLAIN_STATEMENT) {
		auto &explain = statement.Cast<ExplainStatement>();
		auto text = result.plan->ToString(explain.explain_format);
		auto plan = make_uniq<LogicalExplain>(std::move(result.plan), explain.explain_type, explain.explain_format);
		plan->logical_plan_unopt = text;
		result.plan = std::move(plan);
		result.names = {"explain_key", "explain_value"};
		result.types = {LogicalType::VARCHAR, LogicalType::VARCHAR};
		properties.return_type = StatementReturnType::QUERY_RESULT;
	}
	return result;
}

//===--------------------------------------------------------------------===//
// Hooks
//===--------------------------------------------------------------------===//
static void PostBind(PlannerExtensionInput &input, BoundStatement &statement) {
	ForwardState::Get(input.context)->Bound(input.context, input.binder, statement);
}

static BoundStatement BindFailed(ClientContext &context, Binder &binder, OperatorExtensionInfo *info,
                                 SQLStatement &statement) {
	return ForwardState::Get(context)->NotBound(context, binder, statement);
}

namespace {

class ForwardExtension : public OperatorExtension {
public:
	ForwardExtension() {
		Bind = BindFailed;
	}
	string GetName() override {
		return "openduck";
	}
	unique_ptr<LogicalExtensionOperator> Deserialize(Deserializer &deserializer) override {
		throw NotImplementedException("a forwarded statement is not read from a file");
	}
};

} // namespace

void RegisterForward(DatabaseInstance &db) {
	auto &config = DBConfig::GetConfig(db);
	PlannerExtension planner;
	planner.post_bind_function = PostBind;
	PlannerExtension::Register(config, std::move(planner));
	OperatorExtension::Register(config, make_shared_ptr<ForwardExtension>());
}

} // namespace openduck
