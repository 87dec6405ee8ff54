#include "runner/cli/version.h"

#include "runner/protocol/event.h"

namespace runner {

std::string_view version_number() { return RETORT_VERSION; }

std::string version_text() {
  return "retort " RETORT_VERSION " (build " + std::string(build_id()) +
         ")\nLibTorch " RETORT_LIBTORCH_VERSION "\nCUDA " RETORT_CUDA_VERSION "\n";
}

}  // namespace runner
