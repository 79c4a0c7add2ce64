//! A workload made concrete: every request with its lengths, its arrival and its prompt.

mod rotation;

use crate::ids::RequestId;
use crate::prompt_interner::PromptInterner;
use crate::units::{BlockSize, SimDuration};

/// One request of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Session it belongs to, counted in file order.
    pub session: u32,
    /// Position within the session, from 0.
    pub turn: u32,
    /// Prompt length in tokens.
    pub input_tokens: u32,
    /// Tokens to generate.
    pub output_tokens: u32,
    /// First turn: when it arrives, from the start of the run (ignored in a closed loop).
    /// Later turns: think time after the previous turn has completed.
    pub delay: SimDuration,
}

/// What lets a request that is ready enter the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// Its arrival time.
    OpenLoop,
    /// A free slot: at most this many requests are in flight, and first turns are ready at once.
    ClosedLoop {
        /// Requests in flight at most, at least 1.
        concurrency: u32,
    },
}

/// Requests in session order (turns of a session adjacent), with interned prompts.
///
/// Built once by a [`WorkloadBuilder`] and shared by every run over it.
#[derive(Debug, Clone)]
pub struct Workload {
    requests: Vec<Request>,
    admission: Admission,
    prompts: PromptPaths,
}

impl Workload {
    /// All requests, indexed by [`RequestId`].
    pub fn requests(&self) -> &[Request] {
        &self.requests
    }

    /// The request with this id.
    pub fn request(&self, id: RequestId) -> &Request {
        &self.requests[id.index()]
    }

    /// The turn that follows `id` in its session.
    pub fn next_turn(&self, id: RequestId) -> Option<RequestId> {
        let next = RequestId::new(id.get() + 1);
        let follows = self.requests.get(next.index())?.session == self.request(id).session;
        follows.then_some(next)
    }

    /// What lets requests in.
    pub fn admission(&self) -> Admission {
        self.admission
    }

    /// Content of the prompts.
    pub fn prompts(&self) -> &PromptPaths {
        &self.prompts
    }
}

/// Prompts as paths of content blocks, each block identified by everything before it.
///
/// Two prompts share a node exactly where their contents agree from the first token to the end of
/// that block. What a path does not cover belongs to its request alone.
#[derive(Debug, Clone)]
pub struct PromptPaths {
    content_block: BlockSize,
    nodes: Vec<u32>,
    ends: Vec<usize>,
    node_count: u32,
}

impl PromptPaths {
    /// Tokens per content block (the trace's block size, not the engine's).
    pub fn content_block(&self) -> BlockSize {
        self.content_block
    }

    /// Nodes of a request's prompt from its first token on; fewer than the prompt has blocks if its tail is private.
    pub fn path(&self, request: RequestId) -> &[u32] {
        self.path_at(request.index())
    }

    /// Number of distinct nodes; node ids are below it.
    pub fn node_count(&self) -> u32 {
        self.node_count
    }

    fn path_at(&self, index: usize) -> &[u32] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.nodes[start..self.ends[index]]
    }
}

/// Collects requests and interns their prompts.
///
/// ```
/// use dynosim_spec::{Admission, BlockSize, Request, SimDuration, WorkloadBuilder};
///
/// let block = BlockSize::new(16).expect("not zero");
/// let mut builder = WorkloadBuilder::new(block);
/// for (session, ids) in [[7, 8], [7, 9]].into_iter().enumerate() {
///     let request = Request {
///         session: session as u32,
///         turn: 0,
///         input_tokens: 32,
///         output_tokens: 4,
///         delay: SimDuration::ZERO,
///     };
///     builder.push(request, ids);
/// }
/// let workload = builder.build(Admission::OpenLoop);
/// assert_eq!(workload.prompts().node_count(), 3, "both begin with block 7");
/// ```
#[derive(Debug)]
pub struct WorkloadBuilder {
    requests: Vec<Request>,
    prompts: PromptPaths,
    interner: PromptInterner,
}

impl WorkloadBuilder {
    /// A workload without requests whose prompts come in blocks of `content_block` tokens.
    pub fn new(content_block: BlockSize) -> Self {
        Self {
            requests: Vec::new(),
            prompts: PromptPaths {
                content_block,
                nodes: Vec::new(),
                ends: Vec::new(),
                node_count: 0,
            },
            interner: PromptInterner::default(),
        }
    }

    /// Adds a request whose prompt begins with the content blocks `content_ids`.
    ///
    /// Equal ids after equal beginnings are equal content. Ids beyond the prompt's length are
    /// dropped; tokens that no id covers are content of this request alone. Turns of a session
    /// must be added one after the other.
    pub fn push(&mut self, request: Request, content_ids: impl IntoIterator<Item = u64>) {
        let blocks = self.prompts.content_block.blocks_for(request.input_tokens) as usize;
        let mut parent = PromptInterner::ROOT;
        for id in content_ids.into_iter().take(blocks) {
            let node = self.interner.node(parent, id);
            self.prompts.nodes.push(node);
            parent = node;
        }
        self.prompts.ends.push(self.prompts.nodes.len());
        self.requests.push(request);
    }

    /// The finished workload.
    pub fn build(self, admission: Admission) -> Workload {
        Workload {
            requests: self.requests,
            admission,
            prompts: PromptPaths {
                node_count: self.interner.node_count(),
                ..self.prompts
            },
        }
    }
}
