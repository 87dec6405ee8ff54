#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace runner {

/// What happens to a tensor operation that may give different bits the next time.
enum class Determinism {
  kStrict,  ///< it fails
  kWarn,    ///< it runs, with one warning
  kOff,     ///< it runs, and faster ones are not avoided
};

/// "strict", "warn" or "off", as recipes have it.
std::string_view name(Determinism determinism);
std::optional<Determinism> determinism_named(std::string_view name);

/// The operation that LibTorch refuses or warns of in `text`, because it has no deterministic form;
/// nullopt where the text is about something else.
std::optional<std::string> nondeterministic_operation(std::string_view text);

/// "the operation 'put_' has no deterministic form".
std::string nondeterminism_text(const std::string& operation);

}  // namespace runner
