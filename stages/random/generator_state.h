#pragma once

#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <nlohmann/json_fwd.hpp>

namespace stages {

/// The state of LibTorch's random generator of each device, in its own bytes.
using GeneratorStates = std::vector<std::pair<c10::Device, at::Tensor>>;

/// The states of the CPU and, if `device` is another, of that device.
GeneratorStates generator_states(c10::Device device);
/// Throws c10::Error if they are not states of such generators.
void set_generator_states(const GeneratorStates& states);

/// The state of LibTorch's own random generators, for the CPU and, if `device` is another, for that
/// device: an object of hexadecimal texts by device type. Nothing in a training step draws from
/// them (random.h, philox.h), but a layer of LibTorch may.
nlohmann::json generator_state(c10::Device device);

/// Restores such a state. If `device` is not the CPU and the state has no entry for it, its
/// generator stays as it is. Throws std::invalid_argument if `state` is invalid.
void set_generator_state(const nlohmann::json& state, c10::Device device);

}  // namespace stages
