// What many tests include; compiled once. Each test still names what it uses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "runtime/precompiled.h"
