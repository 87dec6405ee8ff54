#pragma once

#include <string>

#include "runner/stage/certificate.h"

namespace runner {

/// A certificate for a person: the relative error of each parameter's gradient, what else came out otherwise, and a
/// line that begins with PASS or FAIL.
std::string certificate_text(const Certificate& certificate);

}  // namespace runner
