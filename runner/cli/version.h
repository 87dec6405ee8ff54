#pragma once

#include <string>
#include <string_view>

namespace runner {

/// "0.1.0".
std::string_view version_number();

/// Three lines: this program's version and build id, the LibTorch it was built with, the CUDA part of the worker.
std::string version_text();

}  // namespace runner
