//===----------------------------------------------------------------------===//
// storage/numbered.hpp: numbers for what a path must not show
//===----------------------------------------------------------------------===//
#pragma once

#include "duckdb.hpp"

namespace openduck {
using namespace duckdb; // NOLINT: every name here is DuckDB's or ours

//! Gives equal values one number, from 1, for as long as the process lives: DuckDB compares the paths of all its instances.
template <class T>
class Numbered {
public:
	idx_t NumberOf(const T &value) {
		lock_guard<mutex> guard(lock);
		for (idx_t i = 0; i < values.size(); i++) {
			if (values[i] == value) {
				return i + 1;
			}
		}
		values.push_back(value);
		return values.size();
	}
	//! False: nothing has that number.
	bool Find(idx_t number, T &result) {
		lock_guard<mutex> guard(lock);
		if (number == 0 || number > values.size()) {
			return false;
		}
		result = values[number - 1];
		return true;
	}

private:
	mutex lock;
	vector<T> values;
};

} // namespace openduck
