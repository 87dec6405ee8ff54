#pragma once

#include <string>

namespace runner {

/// Three lines: this program's version and build id, the LibTorch it was built with, the CUDA part of the worker.
std::string version_text();

}  // namespace runner
