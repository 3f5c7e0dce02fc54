#include "server/run_here.hpp"

#include "duckdb/catalog/catalog.hpp"
#include "duckdb/common/exception/binder_exception.hpp"
#include "duckdb/common/string_util.hpp"
#include "duckdb/function/table_function.hpp"
#include "duckdb/parser/parsed_data/create_table_function_info.hpp"
#include "duckdb/parser/parser.hpp"
#include "duckdb/parser/statement/select_statement.hpp"
#include "duckdb/parser/tableref/subqueryref.hpp"
#include "duckdb/parser/tableref/table_function_ref.hpp"
#include "query/engine.h"

using namespace duckdb; // NOLINT

namespace openduck {
namespace {

constexpr const char *RUN = "openduck_run";

struct RunPlaces : public TableFunctionInfo {
	explicit RunPlaces(unsigned places_p) : places(places_p) {
	}
	const unsigned places;
};

//! AUTO is where its tables are, and a view's or a macro's are where it is.
bool IsHere(const string &where, unsigned places) {
	if (StringUtil::CIEquals(where, "LOCAL")) {
		return (places & OD_RUN_LOCAL) != 0;
	}
	if (StringUtil::CIEquals(where, "REMOTE")) {
		return (places & OD_RUN_REMOTE) != 0;
	}
	if (StringUtil::CIEquals(where, "AUTO")) {
		return true;
	}
	throw BinderException("openduck_run runs a query 'LOCAL', 'REMOTE' or 'AUTO', not '%s'", where);
}

void CheckCall(const TableFunctionBindInput &input) {
	auto places = input.info->Cast<RunPlaces>().places;
	if (places == 0) {
		throw BinderException("openduck_run is not done here: it needs a server with --hybrid (OPENDUCK_HYBRID)");
	}
	if (input.ref.with_ordinality == OrdinalityType::WITH_ORDINALITY) {
		throw BinderException("openduck_run has no WITH ORDINALITY: use row_number() OVER ()");
	}
	for (auto &value : input.inputs) {
		if (value.IsNull()) {
			throw BinderException(
			    "openduck_run takes two string literals: where ('LOCAL', 'REMOTE' or 'AUTO') and a query");
		}
	}
	auto where = input.inputs[0].GetValue<string>();
	if (!IsHere(where, places)) {
		throw BinderException(
		    "openduck_run('%s') is not done here: it needs a server with --hybrid (OPENDUCK_HYBRID), and "
		    "a place in the statement itself; in a view or a macro a call runs where that is",
		    StringUtil::Upper(where));
	}
}

unique_ptr<TableRef> BindReplace(ClientContext &, TableFunctionBindInput &input) {
	CheckCall(input);
	Parser parser;
	parser.ParseQuery(input.inputs[1].GetValue<string>());
	if (parser.statements.size() != 1 || parser.statements[0]->type != StatementType::SELECT_STATEMENT) {
		throw BinderException("openduck_run takes one query, which gives rows for FROM");
	}
	return make_uniq<SubqueryRef>(unique_ptr_cast<SQLStatement, SelectStatement>(std::move(parser.statements[0])), RUN);
}

} // namespace

void InstallRun(ClientContext &context, unsigned places) {
	TableFunction function(RUN, {LogicalType::VARCHAR, LogicalType::VARCHAR}, nullptr, nullptr);
	function.bind_replace = BindReplace;
	function.function_info = make_shared_ptr<RunPlaces>(places);
	CreateTableFunctionInfo info(function);
	info.internal = true;
	context.RunFunctionInTransaction([&]() { Catalog::GetSystemCatalog(context).CreateTableFunction(context, info); });
}

} // namespace openduck
