#include "vgi/insert.hpp"

#include "vgi/branches.hpp"
#include "vgi/rows.hpp"
#include "vgi/transaction.hpp"

#include "duckdb/execution/expression_executor.hpp"
#include "duckdb/planner/expression/bound_columnref_expression.hpp"
#include "duckdb/planner/expression/bound_reference_expression.hpp"
#include "duckdb/planner/expression_iterator.hpp"

namespace vgi {

namespace {

//! Where rows of a table go.
struct InsertTarget {
	//! Of a table of several branches the function of the writable one.
	bool has_branch = false;
	string branch;
	//! What its rows have to meet, over references to the table's columns; null: nothing.
	unique_ptr<Expression> filter;
	string filter_text;
};

class InsertState : public GlobalSinkState {
public:
	InsertState(ClientContext &context, VgiTableEntry &table, const InsertTarget &target);

	//! Sends ROWS.
	void Put(DataChunk &rows);
	//! No rows follow: the worker has taken all of them.
	void Finish();

	idx_t count = 0;

private:
	void Bind(const InsertTarget &target);
	void Count();

	ClientContext &context;
	VgiTableEntry &table;
	od_vgi_context call;
	unique_ptr<ExpressionExecutor> filter;
	string filter_text;
	shared_ptr<RowsSchema> input;
	shared_ptr<BoundFunction> bound;
	bool has_finalize = false;
	unique_ptr<RowsStream> stream;
};

InsertState::InsertState(ClientContext &context, VgiTableEntry &table, const InsertTarget &target)
    : context(context), table(table), call(VgiTransaction::Get(context, table.ParentCatalog()).Call(context)),
      filter_text(target.filter_text) {
	if (target.filter) {
		filter = make_uniq<ExpressionExecutor>(context, *target.filter);
	}
	Bind(target);
	stream = make_uniq<RowsStream>(context, call, *bound, *input, true);
}

void InsertState::Bind(const InsertTarget &target) {
	auto &catalog = table.Schema().Owner();
	Answer<od_vgi_write_function> told;
	od_error err = {};
	ThrowIfFailed(od_vgi_get_insert_function(catalog.Remote()->Handle(), &call, table.schema.name.c_str(),
	                                         table.name.c_str(), target.has_branch ? target.branch.c_str() : nullptr,
	                                         &told.data, &err),
	              err);
	auto name = Text(told->call.function);
	string schema_name = table.schema.name;
	if (told->call.schema_path.count > 0) {
		schema_name = Text(told->call.schema_path.items[told->call.schema_path.count - 1]);
	}
	// It need not be listed: then it wants neither settings nor secrets.
	od_vgi_function unlisted = {};
	unlisted.name = told->call.function;
	unlisted.type = OD_VGI_TABLE_FUNCTION;
	auto schema = VgiTransaction::Get(context, catalog).Snapshot(context).FindSchema(schema_name);
	auto listed = schema ? schema->Functions(context, name) : vector<const od_vgi_function *>();
	auto &function = listed.empty() ? unlisted : *listed[0];
	has_finalize = function.has_finalize;
	vector<string> names;
	for (auto &column : table.GetColumns().Physical()) {
		names.push_back(column.Name());
	}
	input = make_shared_ptr<RowsSchema>(context, table.GetTypes(), names);
	FunctionCall insert(catalog, function, schema_name);
	insert.arguments = ReadValues(context, told->call.arguments);
	insert.input = &input->Get();
	bound = BindAtWorker(context, insert);
	auto &answer = bound->Schema();
	if (answer.n_children != 1 || strcmp(answer.children[0]->format, "l") != 0) {
		throw IOException(
		    "VGI function \"%s\" of \"%s\", which inserts into \"%s\".\"%s\", does not say how many rows it "
		    "took",
		    name, catalog.GetName(), table.schema.name, table.name);
	}
}

void InsertState::Put(DataChunk &rows) {
	if (filter) {
		SelectionVector chosen(STANDARD_VECTOR_SIZE);
		if (filter->SelectExpression(rows, chosen) < rows.size()) {
			throw ConstraintException(
			    "a row for \"%s\".\"%s\" is not of its writable branch: nobody would find it again "
			    "[branch_filter: %s]",
			    table.schema.name, table.name, filter_text);
		}
	}
	bool more = false;
	do {
		more = stream->Put(rows, more);
		Count();
	} while (more);
}

void InsertState::Count() {
	auto &batch = stream->batch->arrow_array;
	if (!batch.release) {
		return;
	}
	auto &column = *batch.children[0];
	auto values = static_cast<const int64_t *>(column.buffers[1]);
	for (int64_t i = 0; i < batch.length; i++) {
		auto taken = column.null_count == 0 ? values[batch.offset + column.offset + i] : -1;
		if (taken < 0) {
			throw IOException("the VGI worker of \"%s\" takes no number of rows for \"%s\".\"%s\"",
			                  table.ParentCatalog().GetName(), table.schema.name, table.name);
		}
		count += idx_t(taken);
	}
}

void InsertState::Finish() {
	if (!has_finalize) {
		stream->Finish();
		return;
	}
	stream->Finalize();
	while (stream->NextKept()) {
		Count();
	}
}

class PhysicalWorkerInsert : public PhysicalOperator {
public:
	static constexpr const PhysicalOperatorType TYPE = PhysicalOperatorType::EXTENSION;

	PhysicalWorkerInsert(PhysicalPlan &plan, vector<LogicalType> types, VgiTableEntry &table, InsertTarget target)
	    : PhysicalOperator(plan, TYPE, std::move(types), 1), table(table), target(std::move(target)) {
	}
	string GetName() const override {
		return "VGI_INSERT";
	}
	InsertionOrderPreservingMap<string> ParamsToString() const override {
		InsertionOrderPreservingMap<string> result;
		result["Catalog"] = table.ParentCatalog().GetName();
		result["Table"] = table.schema.name + "." + table.name;
		return result;
	}

	bool IsSink() const override {
		return true;
	}
	bool SinkOrderDependent() const override {
		return true;
	}
	unique_ptr<GlobalSinkState> GetGlobalSinkState(ClientContext &context) const override {
		return make_uniq<InsertState>(context, table, target);
	}
	SinkResultType Sink(ExecutionContext &, DataChunk &chunk, OperatorSinkInput &input) const override {
		input.global_state.Cast<InsertState>().Put(chunk);
		return SinkResultType::NEED_MORE_INPUT;
	}
	SinkFinalizeType Finalize(Pipeline &, Event &, ClientContext &, OperatorSinkFinalizeInput &input) const override {
		input.global_state.Cast<InsertState>().Finish();
		return SinkFinalizeType::READY;
	}

	bool IsSource() const override {
		return true;
	}
	unique_ptr<GlobalSourceState> GetGlobalSourceState(ClientContext &) const override {
		return make_uniq<GlobalSourceState>();
	}

protected:
	SourceResultType GetDataInternal(ExecutionContext &, DataChunk &chunk, OperatorSourceInput &) const override {
		chunk.SetCardinality(1);
		chunk.SetValue(0, 0, Value::BIGINT(int64_t(sink_state->Cast<InsertState>().count)));
		return SourceResultType::FINISHED;
	}

private:
	VgiTableEntry &table;
	const InsertTarget target;
};

} // namespace

//! FILTER over references to the columns of TABLE.
static unique_ptr<Expression> OverTableColumns(ClientContext &context, VgiTableEntry &table, const string &filter) {
	auto binder = Binder::CreateBinder(context);
	vector<string> names;
	for (auto &column : table.GetColumns().Physical()) {
		names.push_back(column.Name());
	}
	binder->bind_context.AddGenericBinding(binder->GenerateTableIndex(), table.name, names, table.GetTypes());
	auto result = openduck::BindBranchFilter(context, *binder, filter, {"VGI", table.schema.name, table.name});
	ExpressionIterator::VisitExpressionMutable<BoundColumnRefExpression>(
	    result, [&](BoundColumnRefExpression &column, unique_ptr<Expression> &place) {
		    place = make_uniq<BoundReferenceExpression>(column.return_type, column.binding.column_index);
	    });
	return result;
}

//! Throws unless rows can be written to TABLE.
static InsertTarget FindTarget(ClientContext &context, VgiTableEntry &table) {
	Answer<od_vgi_branches> branches;
	table.GetBranches(context, branches);
	auto shown = table.schema.name + "." + table.name;
	InsertTarget result;
	optional_ptr<const od_vgi_branch> writable;
	for (idx_t i = 0; i < branches->count; i++) {
		if (branches->items[i].writable) {
			writable = &branches->items[i];
		}
	}
	if (!writable && (branches->count > 1 || !table.CanInsert())) {
		table.Schema().Owner().Refuse("INSERT into " + shown +
		                              (branches->count > 1 ? ", which has no writable branch" : ""));
	}
	if (!writable) {
		writable = &branches->items[0];
	}
	if (writable->kind != OD_VGI_BRANCH_FUNCTION) {
		throw NotImplementedException(
		    "VGI table \"%s\" is written where its writable branch is, not through the catalog: it is %s", shown,
		    writable->kind == OD_VGI_BRANCH_TABLE
		        ? "the table " + Text(writable->source_catalog) + "." + Text(writable->source_table)
		        : "files");
	}
	result.has_branch = branches->count > 1;
	result.branch = Text(writable->call.function);
	if (writable->filter.data) {
		result.filter_text = Text(writable->filter);
		result.filter = OverTableColumns(context, table, result.filter_text);
	}
	return result;
}

PhysicalOperator &PlanWorkerInsert(ClientContext &context, PhysicalPlanGenerator &planner, LogicalInsert &op,
                                   PhysicalOperator &plan) {
	auto &table = op.table.Cast<VgiTableEntry>();
	auto &catalog = table.Schema().Owner();
	auto target = FindTarget(context, table);
	if (op.return_chunk) {
		catalog.Refuse("RETURNING");
	}
	if (op.on_conflict_info.action_type != OnConflictAction::THROW) {
		catalog.Refuse("ON CONFLICT");
	}
	if (!catalog.HasTransactions() && !context.transaction.IsAutoCommit()) {
		throw TransactionException(
		    "the worker of VGI catalog \"%s\" has no transactions: what is inserted into it in one could "
		    "not be rolled back. Run the INSERT on its own",
		    catalog.GetName());
	}
	reference<PhysicalOperator> rows = plan;
	if (!op.column_index_map.empty()) {
		rows = planner.ResolveDefaultsProjection(op, plan);
	}
	auto &insert = planner.Make<PhysicalWorkerInsert>(op.types, table, std::move(target));
	insert.children.push_back(rows);
	return insert;
}

} // namespace vgi
