#include "openduck/table_size.hpp"

#include "openduck/catalog.hpp"
#include "openduck/pushdown_function.hpp"
#include "openduck/scan.hpp"
#include "openduck/table.hpp"
#include "openduck/transaction.hpp"

#include "duckdb/planner/operator/logical_get.hpp"

namespace openduck {

//! Counting stops here, so that it costs no more for a huge table; plans do not differ above.
static constexpr idx_t COUNT_LIMIT = 1000000;

optional_idx TableSizes::Find(const string &relation, idx_t writes) {
	lock_guard<mutex> guard(lock);
	auto entry = sizes.find(relation);
	return entry == sizes.end() || entry->second.writes < writes ? optional_idx() : entry->second.rows;
}

void TableSizes::Put(const string &relation, idx_t writes, idx_t rows) {
	lock_guard<mutex> guard(lock);
	sizes[relation] = {writes, rows};
}

namespace {

struct Question {
	shared_ptr<OpenDuckTransaction> transaction;
	idx_t writes;
	vector<reference<RemoteScanSource>> tables;
};

class SizeRefresh {
public:
	explicit SizeRefresh(ClientContext &context) : context(context) {
	}

	void Run(LogicalOperator &plan) {
		Collect(plan);
		if (!joins) {
			return;
		}
		for (auto &scan : scans) {
			Look(scan.get());
		}
		for (auto &question : questions) {
			Ask(question.second);
		}
	}

private:
	void Collect(LogicalOperator &op) {
		joins |= op.children.size() > 1;
		if (op.type == LogicalOperatorType::LOGICAL_GET) {
			auto &get = op.Cast<LogicalGet>();
			if (IsRemoteScan(get.function) && get.bind_data) {
				scans.push_back(get.bind_data->Cast<RemoteScanBindData>().source);
			}
		}
		for (auto &child : op.children) {
			Collect(*child);
		}
	}

	//! Takes what is known, and asks for what is not.
	void Look(RemoteScanSource &source) {
		auto transaction = source.transaction.lock();
		if (!transaction || !source.entry) {
			return;
		}
		auto &table = source.entry->Cast<OpenDuckTableEntry>();
		auto &catalog = transaction->catalog;
		idx_t writes = catalog.writes;
		auto own = transaction->HasWritten();
		auto huge = source.estimated_rows.IsValid() && source.estimated_rows.GetIndex() >= COUNT_LIMIT;
		if (table.IsView() || huge || (!own && table.snapshot.writes == writes)) {
			return;
		}
		auto known = own ? optional_idx() : catalog.sizes.Find(source.relation, writes);
		if (known.IsValid()) {
			source.estimated_rows = known;
			return;
		}
		auto &question = questions[transaction.get()];
		question.transaction = std::move(transaction);
		question.writes = writes;
		question.tables.push_back(source);
	}

	void Ask(Question &question) {
		vector<string> counts;
		for (auto &table : question.tables) {
			counts.push_back(StringUtil::Format("(SELECT %s FROM (SELECT 1 FROM %s LIMIT %llu))",
			                                    SystemCallSql("count", {"*"}), table.get().relation, COUNT_LIMIT));
		}
		vector<LogicalType> types(counts.size(), LogicalType::BIGINT);
		auto &transaction = *question.transaction;
		auto &remote = transaction.catalog.GetRemote();
		try {
			auto txn = transaction.Server(context, ServerUse::STATEMENT);
			auto rows = remote.Query(&context, txn, "SELECT " + StringUtil::Join(counts, ", "), types, nullptr);
			for (auto &row : rows->Rows()) {
				for (idx_t i = 0; i < counts.size(); i++) {
					Take(question, question.tables[i], idx_t(BigIntValue::Get(row.GetValue(i))));
				}
			}
		} catch (InterruptException &) {
			throw;
		} catch (std::exception &) {
			// What is wrong shows when the tables are read.
			return;
		}
	}

	static void Take(Question &question, RemoteScanSource &source, idx_t rows) {
		source.estimated_rows = rows;
		if (!question.transaction->HasWritten()) {
			question.transaction->catalog.sizes.Put(source.relation, question.writes, rows);
		}
	}

	ClientContext &context;
	bool joins = false;
	vector<reference<RemoteScanSource>> scans;
	unordered_map<const OpenDuckTransaction *, Question> questions;
};

} // namespace

void RefreshTableSizes(ClientContext &context, LogicalOperator &plan) {
	SizeRefresh(context).Run(plan);
}

} // namespace openduck
