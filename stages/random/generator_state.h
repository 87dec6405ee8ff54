#pragma once

#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <nlohmann/json_fwd.hpp>

namespace stages {

/// The states of LibTorch's random number generators by device, as the bytes that LibTorch returns.
using GeneratorStates = std::vector<std::pair<c10::Device, at::Tensor>>;

/// Returns the state of the CPU's generator and, if `device` is not the CPU, of that device's
/// generator.
GeneratorStates generator_states(c10::Device device);
/// Restores the states. Throws c10::Error if they are not states of such generators.
void set_generator_states(const GeneratorStates& states);

/// Returns the states of LibTorch's own random number generators, for the CPU and, if it is not the
/// CPU, for `device`: an object with hexadecimal strings by device type. No Retort training step
/// draws from them (random.h, philox.h), but a LibTorch layer may.
nlohmann::json generator_state(c10::Device device);

/// Restores the result of generator_state(). If `device` is not the CPU and has no entry in
/// `state`, its generator is left unchanged. Throws std::invalid_argument if `state` is invalid.
void set_generator_state(const nlohmann::json& state, c10::Device device);

}  // namespace stages
