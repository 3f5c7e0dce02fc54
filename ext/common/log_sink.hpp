//===----------------------------------------------------------------------===//
// common/log_sink.hpp: where the rooms' log lines go inside a host
//===----------------------------------------------------------------------===//
#pragma once

namespace openduck {

//! Called once when the extension is loaded.
void SilenceLog();

} // namespace openduck
