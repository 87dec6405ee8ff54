#pragma once

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

#include "tests/support/program.h"

// A Python interpreter with torch of the worker's version, for tests of code that Python hosts.

/// $RETORT_TORCH_PYTHON, else the environment that `scripts/bench-python` makes; nullopt if there
/// is none.
inline std::optional<std::filesystem::path> torch_python() {
  if (const char* named = std::getenv("RETORT_TORCH_PYTHON")) return named;
  const char* const cache = std::getenv("XDG_CACHE_HOME");
  const char* const home = std::getenv("HOME");
  const std::filesystem::path folder =
      cache ? std::filesystem::path(cache) : std::filesystem::path(home ? home : ".") / ".cache";
  const auto environment = folder / "retort/bench-python-" RETORT_LIBTORCH_VERSION "/bin/python";
  if (!std::filesystem::exists(environment)) return std::nullopt;
  return environment;
}

inline constexpr const char* kNoTorchPython =
    "no Python with torch: scripts/bench-python makes one, or RETORT_TORCH_PYTHON names one";

/// True if torch_python() has a package. Does not import it.
inline bool torch_python_has(const std::string& package) {
  const auto python = torch_python();
  return python && run_shell("'" + python->string() +
                                 "' -c \"import importlib.util as util, sys; "
                                 "sys.exit(util.find_spec('" +
                                 package + "') is None)\"",
                             ".")
                           .exit == 0;
}
