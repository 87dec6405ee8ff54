#pragma once

#include <string>

#include <c10/core/Device.h>

#include "runner/stage/run_context.h"

namespace stages {

/// What is known of memory of `device` that has just run out: of a CPU what its allocator refused last, of a GPU
/// what was reserved. `from` and `to` are left to whoever knows them. Called before anything is freed for good.
runner::Recovery memory_incident(c10::Device device);

/// "out of memory in phase 'backward' (4.0 MiB were asked for while 61 MiB of 64 MiB were taken)", as far as that is
/// known.
std::string in_words(const runner::Recovery& incident);

/// Makes room for another try: what was refused is forgotten, and unused blocks are returned.
void clear_after_out_of_memory(c10::Device device);

}  // namespace stages
