#include "openduck/run.hpp"

#include "openduck/branches.hpp"
#include "openduck/catalog.hpp"
#include "openduck/run_text.hpp"

#include "duckdb/catalog/catalog.hpp"
#include "duckdb/catalog/catalog_entry/table_catalog_entry.hpp"
#include "duckdb/function/table_function.hpp"
#include "duckdb/main/attached_database.hpp"
#include "duckdb/main/database_manager.hpp"
#include "duckdb/parser/expression/constant_expression.hpp"
#include "duckdb/parser/expression/function_expression.hpp"
#include "duckdb/parser/tableref/subqueryref.hpp"

namespace openduck {

//===--------------------------------------------------------------------===//
// Which server
//===--------------------------------------------------------------------===//
//! The attached database that REMOTE means: the named one, the one in use, or the only one.
static OpenDuckCatalog &CatalogOf(ClientContext &context, const string &name) {
	if (!name.empty()) {
		return CatalogOfAlias(context, name);
	}
	auto &manager = DatabaseManager::Get(context);
	auto used = manager.GetDatabase(context, DatabaseManager::GetDefaultDatabase(context));
	if (used && OpenDuckCatalog::Is(used->GetCatalog())) {
		return used->GetCatalog().Cast<OpenDuckCatalog>();
	}
	vector<string> names;
	for (auto &database : manager.GetDatabases(context)) {
		if (!database->IsSystem() && !database->IsTemporary() && OpenDuckCatalog::Is(database->GetCatalog())) {
			names.push_back(database->GetName());
		}
	}
	if (names.empty()) {
		throw BinderException("openduck_run: no OpenDuck database is attached");
	}
	if (names.size() > 1) {
		throw BinderException("openduck_run: several OpenDuck databases are attached (%s); name one: database := '%s'",
		                      StringUtil::Join(names, ", "), names[0]);
	}
	return CatalogOfAlias(context, names[0]);
}

//! The catalog that knows REF on this side; null: none does.
static optional_ptr<Catalog> FindHere(ClientContext &context, const BaseTableRef &ref) {
	EntryLookupInfo lookup(CatalogType::TABLE_ENTRY, ref.table_name);
	auto entry = Catalog::GetEntry(context, ref.catalog_name, ref.schema_name, lookup, OnEntryNotFound::RETURN_NULL);
	return entry ? &entry->ParentCatalog() : nullptr;
}

//! Of what FindHere finds: its server has only a part of it.
static bool IsBranched(ClientContext &context, const BaseTableRef &ref) {
	EntryLookupInfo lookup(CatalogType::TABLE_ENTRY, ref.table_name);
	auto entry = Catalog::GetEntry(context, ref.catalog_name, ref.schema_name, lookup, OnEntryNotFound::RETURN_NULL);
	return entry && HasBranches(*entry);
}

static bool KnownThere(ClientContext &context, OpenDuckCatalog &catalog, const BaseTableRef &ref) {
	if (!ref.catalog_name.empty()) {
		return false;
	}
	EntryLookupInfo lookup(CatalogType::TABLE_ENTRY, ref.table_name);
	auto &schema = ref.schema_name.empty() ? DEFAULT_SCHEMA : ref.schema_name;
	return catalog.GetEntry(context, schema, lookup, OnEntryNotFound::RETURN_NULL) != nullptr;
}

//===--------------------------------------------------------------------===//
// AUTO
//===--------------------------------------------------------------------===//
//! Where the tables of a query are.
class RunPlacement : public RunVisitor {
public:
	RunPlacement(ClientContext &context, const RunCall &call) : context(context), call(call) {
	}

	//! REMOTE if the server knows all tables by the names that they have in the text, of which there are some.
	RunPlace Place() const {
		return remote && !local ? RunPlace::REMOTE : RunPlace::LOCAL;
	}
	optional_ptr<OpenDuckCatalog> remote;
	bool local = false;

protected:
	void Table(BaseTableRef &ref) override {
		auto here = FindHere(context, ref);
		if (here && (!OpenDuckCatalog::Is(*here) || IsBranched(context, ref))) {
			local = true;
			return;
		}
		auto &catalog = here ? here->Cast<OpenDuckCatalog>() : CatalogOf(context, call.database);
		if (!here && !KnownThere(context, catalog, ref)) {
			local = true; // perhaps a DataFrame, or a file
			return;
		}
		local = local || !ref.catalog_name.empty() || (remote && remote.get() != &catalog);
		remote = &catalog;
	}
	void Call(unique_ptr<TableRef> &ref) override {
		auto inner = ReadRunCall(ref->Cast<TableFunctionRef>());
		if (inner.place == RunPlace::LOCAL) {
			local = true;
		} else if (inner.place == RunPlace::AUTO) {
			Visit(*ParseRunQuery(inner.query));
		} else {
			auto &catalog = CatalogOf(context, inner.database);
			local = local || (remote && remote.get() != &catalog);
			remote = &catalog;
		}
	}

private:
	ClientContext &context;
	const RunCall &call;
};

//===--------------------------------------------------------------------===//
// Texts for a server
//===--------------------------------------------------------------------===//
static unique_ptr<TableRef> AsSubquery(unique_ptr<SelectStatement> query, const string &alias) {
	return make_uniq<SubqueryRef>(std::move(query), alias.empty() ? RUN_FUNCTION : alias);
}

//! Puts the calls that run at CATALOG's server in their places in the text; notes whether any other is left.
class RunInliner : public RunVisitor {
public:
	RunInliner(ClientContext &context, OpenDuckCatalog &catalog) : context(context), catalog(catalog) {
	}
	bool changed = false;
	bool local = false;

protected:
	void Table(BaseTableRef &) override {
	}
	void Call(unique_ptr<TableRef> &ref) override {
		auto call = ReadRunCall(ref->Cast<TableFunctionRef>());
		auto query = ParseRunQuery(call.query);
		if (call.place == RunPlace::AUTO) {
			RunPlacement placement(context, call);
			placement.Visit(*query);
			call.place = placement.Place();
			call.database = placement.remote ? placement.remote->GetName() : string();
		}
		if (call.place == RunPlace::LOCAL || &CatalogOf(context, call.database) != &catalog) {
			local = true;
			return;
		}
		Visit(*query);
		auto subquery = AsSubquery(std::move(query), ref->alias);
		subquery->column_name_alias = ref->column_name_alias;
		ref = std::move(subquery);
		changed = true;
	}

private:
	ClientContext &context;
	OpenDuckCatalog &catalog;
};

//! Names the tables of a text for CATALOG's server as they are called here.
class RunQualifier : public RunVisitor {
public:
	RunQualifier(ClientContext &context, OpenDuckCatalog &catalog, bool all)
	    : context(context), catalog(catalog), all(all) {
	}

protected:
	void Table(BaseTableRef &ref) override {
		bool servers = StringUtil::CIEquals(ref.catalog_name, catalog.RemoteDatabase());
		if (servers && all) {
			ref.catalog_name = catalog.GetName();
		}
		if (ref.catalog_name.empty() && (all || (!FindHere(context, ref) && KnownThere(context, catalog, ref)))) {
			// Without an alias a table is called by its name alone.
			ref.catalog_name = catalog.GetName();
			ref.schema_name = ref.schema_name.empty() ? DEFAULT_SCHEMA : ref.schema_name;
		}
	}
	void Call(unique_ptr<TableRef> &) override {
	}

private:
	ClientContext &context;
	OpenDuckCatalog &catalog;
	//! All names are the server's; else only those that nobody has here
	bool all;
};

static unique_ptr<TableRef> SentTo(OpenDuckCatalog &catalog, const string &query) {
	auto result = make_uniq<TableFunctionRef>();
	vector<unique_ptr<ParsedExpression>> arguments;
	arguments.push_back(make_uniq<ConstantExpression>(Value(catalog.GetName())));
	arguments.push_back(make_uniq<ConstantExpression>(Value(query)));
	result->function = make_uniq<FunctionExpression>("openduck_query", std::move(arguments));
	result->alias = RUN_FUNCTION;
	return std::move(result);
}

static unique_ptr<TableRef> RunRemote(ClientContext &context, OpenDuckCatalog &catalog, const string &text) {
	auto query = ParseRunQuery(text);
	RunInliner inliner(context, catalog);
	inliner.Visit(*query);
	if (!inliner.local) {
		return SentTo(catalog, inliner.changed ? query->ToString() : text);
	}
	// Rows of this side are needed, and they come to where they can be joined with all that the server is asked for.
	RunQualifier(context, catalog, true).Visit(*query);
	return AsSubquery(std::move(query), string());
}

static unique_ptr<TableRef> RunAuto(ClientContext &context, const RunCall &call) {
	auto query = ParseRunQuery(call.query);
	RunPlacement placement(context, call);
	placement.Visit(*query);
	if (placement.Place() == RunPlace::REMOTE) {
		return RunRemote(context, *placement.remote, call.query);
	}
	if (placement.remote) {
		RunQualifier(context, *placement.remote, false).Visit(*query);
	}
	return AsSubquery(std::move(query), string());
}

//===--------------------------------------------------------------------===//
// The function
//===--------------------------------------------------------------------===//
static unique_ptr<TableRef> RunBindReplace(ClientContext &context, TableFunctionBindInput &input) {
	RunCall call;
	if (input.ref.with_ordinality == OrdinalityType::WITH_ORDINALITY) {
		throw BinderException("openduck_run has no WITH ORDINALITY: use row_number() OVER ()");
	}
	for (auto &value : input.inputs) {
		if (value.IsNull()) {
			throw BinderException(
			    "openduck_run takes string literals: where ('LOCAL', 'REMOTE' or 'AUTO') and a query");
		}
	}
	call.place = ParseRunPlace(input.inputs[0].GetValue<string>());
	call.query = input.inputs[1].GetValue<string>();
	auto database = input.named_parameters.find("database");
	if (database != input.named_parameters.end() && !database->second.IsNull()) {
		call.database = database->second.GetValue<string>();
	}
	switch (call.place) {
	case RunPlace::LOCAL:
		return AsSubquery(ParseRunQuery(call.query), string());
	case RunPlace::REMOTE:
		return RunRemote(context, CatalogOf(context, call.database), call.query);
	default:
		return RunAuto(context, call);
	}
}

void RegisterRun(ExtensionLoader &loader) {
	TableFunction function(RUN_FUNCTION, {LogicalType::VARCHAR, LogicalType::VARCHAR}, nullptr, nullptr);
	function.named_parameters["database"] = LogicalType::VARCHAR;
	function.bind_replace = RunBindReplace;
	loader.RegisterFunction(function);
}

} // namespace openduck
