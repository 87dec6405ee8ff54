#pragma once

#include <c10/core/Device.h>
#include <nlohmann/json_fwd.hpp>

namespace stages {

/// The state of LibTorch's own random generators, of the CPU and, where `device` is another, of that: an object of
/// hexadecimal texts by device type. Nothing in a training step draws from them (random.h, philox.h), but a layer of
/// LibTorch's may.
nlohmann::json generator_state(c10::Device device);

/// Puts such a state back. Throws std::invalid_argument if it is none.
void set_generator_state(const nlohmann::json& state, c10::Device device);

}  // namespace stages
