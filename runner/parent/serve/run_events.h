#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

namespace runner {

/// Returns a function that looks at the run in `folder` each time it is called and returns the
/// server-sent events since the last call, or an empty text; nullopt once the run is over and that
/// has been told. The events are
///
///   progress   the line of `retort watch`, whenever it changes
///   report     the report has changed; at most every fifth call
///   end        the run is over
std::function<std::optional<std::string>()> run_events(std::filesystem::path folder);

}  // namespace runner
