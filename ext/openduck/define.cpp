#include "openduck/define.hpp"

#include "openduck/forward_rewrite.hpp"
#include "openduck/forward_sql.hpp"
#include "openduck/scan.hpp"
#include "openduck/transaction.hpp"

#include "duckdb/parser/statement/create_statement.hpp"

namespace openduck {

static string DefinitionSql(ClientContext &context, const CreateInfo &info) {
	CreateStatement statement;
	statement.info = info.Copy();
	try {
		ForwardRewriter(context).Rewrite(statement);
	} catch (NotForwardable &ex) {
		throw BinderException("what a remote database stores can only use what that database has: %s", ex.what());
	}
	return StatementToSql(statement);
}

void DefineAtServer(ClientContext &context, OpenDuckCatalog &catalog, const CreateInfo &info) {
	catalog.RequireWritable("CREATE " + CatalogTypeToString(info.type));
	auto sql = DefinitionSql(context, info);
	auto &transaction = OpenDuckTransaction::Get(context, catalog);
	auto txn = transaction.Server(context, ServerUse::STATEMENT);
	transaction.Wrote(false);
	auto stream = RemoteStream::Start(&context, catalog.GetRemote(), txn, sql, 0, false);
	RemotePayload payload;
	while (stream->Next(payload)) {
		od_msg_unref(payload.owner);
	}
	transaction.Wrote(true);
}

} // namespace openduck
